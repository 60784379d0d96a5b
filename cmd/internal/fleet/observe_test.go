package fleet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/setup/cli"
)

func TestMetricsFlags(t *testing.T) {
	t.Parallel()
	queue := "redis://" + miniredis.RunT(t).Addr()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"address": {args: []string{"--metrics", "nonsense"}, want: "--metrics"},
		"keys":    {args: []string{"--metrics", "0", "--metrics-keys", "openai=x"}, want: "--metrics-keys"},
		"unknown": {
			args: []string{"--metrics", "0", "--metrics-keys", "opnai=50"},
			want: `there is no limit "opnai"; there is "openai"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"OPENAI_API_KEY": "k", "REDIS_URL": queue}
			args := append([]string{"worker", "--config", "../../../headway.yaml"}, tc.args...)
			if code, _, errs := command(t, env, args...); code != cli.ExitUsage || !strings.Contains(errs, tc.want) {
				t.Errorf("exit %d: %s", code, errs)
			}
		})
	}
}

// SIGUSR1 switches the log to debug and back, and each time the log says so.
//
//nolint:paralleltest // the signal goes to the whole process
func TestSwitchesTheLogLevel(t *testing.T) {
	var log bytes.Buffer
	logger, level, err := cli.NewLogger(&log, "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	stop := sync.OnceFunc(switchLevel(t.Context(), level, logger))
	defer stop()
	for _, want := range []slog.Level{slog.LevelDebug, slog.LevelWarn, slog.LevelDebug} {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("the level is %v", want), func() bool { return level.Level() == want })
	}
	stop()
	for to, want := range map[string]int{`"to":"DEBUG"`: 2, `"to":"WARN"`: 1} {
		if n := strings.Count(log.String(), to); n != want {
			t.Errorf("%s is in %d lines, want %d: %s", to, n, want, log.String())
		}
	}
}
