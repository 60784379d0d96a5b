package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Only "worker" starts a worker, which never ends by itself.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "enqueue", "--help", "work", "worker now"} {
		if err := run(t.Context(), strings.Fields(line)); err == nil || !strings.HasPrefix(err.Error(), "usage:") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
