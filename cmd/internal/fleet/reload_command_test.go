package fleet

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
)

// The command prints the answer of each worker, also if a worker finds a fault or does not answer.
func TestReloadOfTheFleet(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	env := map[string]string{"REDIS_URL": "redis://" + server.Addr()}
	const none = "no `headway worker` runs"
	if code, _, errs := command(t, env, "reload"); code != cli.ExitFailed || !strings.Contains(errs, none) {
		t.Errorf("exit %d: %s", code, errs)
	}
	queue := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = queue.Close() }()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("limits: {a: {meters: {r: 5/m}}}")
	current, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	own := &reloader{
		file: file, current: current, register: register.New(queue), log: slog.New(slog.DiscardHandler),
		set: func([]reservations.Limit) error { return nil },
	}
	defer own.onHangup(t.Context(), nil)()
	write("limits: {a: {meters: {r: 6/m}}}\nconcurrency: 7")
	name := register.ProcessName()
	until(t, "the worker answers requests", func() bool {
		return server.Exists("headway:{fleet}:reader:" + name)
	})
	code, out, errs := command(t, env, "reload", "--timeout", "1m")
	if code != cli.ExitOK || out != name+"  goes by its file now; needs a restart: concurrency\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}

	write("limits: {a: {meters: {r: -6/m}}}")
	code, out, errs = command(t, env, "reload", "--timeout", "5m")
	if code != cli.ExitFailed || !strings.Contains(out, name+"  has changed nothing: ") ||
		!strings.Contains(out, "limits.a.meters.r.rate") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if _, err := register.New(queue).Requested(t.Context(), "silent:1"); err != nil {
		t.Fatal(err)
	}
	code, out, errs = command(t, env, "reload", "--timeout", "1s")
	if code != cli.ExitFailed || !strings.Contains(out, "silent:1  has not answered\n") ||
		!strings.Contains(errs, "2 of 2 workers did not reload") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// A request that is older than the worker is answered, and reloads only a file that has changed since it was read.
func TestReloadRequestedBeforeTheStart(t *testing.T) {
	t.Parallel()
	queue := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer func() { _ = queue.Close() }()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {a: {meters: {r: 5/m}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	same, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	request, _, err := register.New(queue).Reload(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		current config.Config
		reloads int
	}{"same file": {same, 0}, "another file": {config.Config{}, 1}} {
		reloads := 0
		r := &reloader{
			file: file, current: c.current, register: register.New(queue), log: slog.New(slog.DiscardHandler),
			set: func([]reservations.Limit) error { reloads++; return nil },
		}
		r.answer(t.Context())
		answers, err := r.register.Answers(t.Context(), request)
		if err != nil || len(answers) != 1 || reloads != c.reloads {
			t.Errorf("%s: %d reloads, answers %v, %v", name, reloads, answers, err)
		}
		if err := queue.Del(t.Context(), "headway:{fleet}:reload:"+request).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
