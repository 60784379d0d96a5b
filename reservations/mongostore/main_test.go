package mongostore_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs this binary as one of many processes where TestProcesses asks for it.
func TestMain(m *testing.M) {
	if os.Getenv(processDatabase) != "" {
		if err := startOnce(context.Background(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
