package fleet_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/field"
)

// TestMain lets the runner start this program again as a worker.
func TestMain(m *testing.M) {
	if env := os.Getenv(contest.EnvVariable); env != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := field.Work(ctx, env, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
