package fleet

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
)

func TestReload(t *testing.T) {
	t.Parallel()
	const first = "limits: {a: {meters: {r: 5/m}}, b: {meters: {r: 5/m}}}\nconcurrency: 4"
	for name, c := range map[string]struct {
		text    string
		refuses error
		want    []string
		limits  int // that were set; 0: none
	}{
		"limits": {"limits: {a: {meters: {r: 6/m}}}\nconcurrency: 4", nil, []string{
			`level=INFO msg="settings are reloaded"`, "limits_changed=true",
			`level=WARN msg="a limit is gone, tasks that name it go back to the queue" limit=b`,
		}, 1},
		"nothing": {first, nil, []string{`msg="settings are reloaded"`, "limits_changed=false"}, 2},
		"fixed": {first + "0\nqueues: {other: 1}\nshutdown_timeout: 5s\nmax_refusals: 3\nhttp: {allow_hosts: " +
			"[x.example]}\nestimates: {learn: [a]}\nproviders: {a: {base_url: \"http://h/v1\"}}\nrecurring: {r: {every: 1m, " +
			"task: {type: \"web:request\", payload: {url: \"https://x.example/secret\"}}}}", nil, []string{
			`level=WARN msg="a setting changes only when the worker restarts" field=concurrency running=4 file=40`,
			"field=queues running=map[default:1] file=map[other:1]", "field=shutdown_timeout running=30s file=5s",
			"field=max_refusals running=0 file=3",
			"field=http ", "field=estimates ", "field=providers ", "field=recurring\n",
		}, 2},
		"faults": {"limits: {a: {meters: {r: -6/m}}}\nconcurrency: -1", nil, []string{
			`level=ERROR msg="settings can't be reloaded, nothing has changed"`, "limits.a.meters.r.rate",
			"concurrency: -1",
		}, 0},
		"empty": {"", nil, []string{
			`level=ERROR msg="settings can't be reloaded, nothing has changed"`,
			"the file is empty",
		}, 0},
		"no limits": {
			"concurrency: 4", nil,
			[]string{`level=ERROR msg="settings can't be reloaded, nothing has changed"`},
			0,
		},
		"refused": {
			first, errors.New("a shard can't change"),
			[]string{`level=ERROR msg="settings can't be reloaded, nothing has changed"`, "a shard can't change"},
			2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "headway.yaml")
			before, err := config.Parse([]byte(first))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			var set []reservations.Limit
			r := &reloader{
				file: file, current: before, log: slog.New(slog.NewTextHandler(&out, nil)),
				set: func(l []reservations.Limit) error {
					set = l
					return c.refuses
				},
			}
			_, _ = r.reload(t.Context()) // what it logs is compared
			if len(set) != c.limits {
				t.Errorf("set %v", set)
			}
			if strings.Contains(out.String(), "secret") {
				t.Errorf("a payload is in the log:\n%s", out.String())
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in\n%s", want, out.String())
				}
			}
		})
	}
}

// A hangup reaches the reloader, and does not end the process.
func TestReloadOnHangup(t *testing.T) {
	t.Parallel()
	set := make(chan []reservations.Limit, 1)
	queue := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer func() { _ = queue.Close() }()
	r := &reloader{
		file: "../../../headway.yaml", register: register.New(queue), log: slog.New(slog.DiscardHandler),
		set: func(l []reservations.Limit) error {
			set <- l
			return nil
		},
	}
	stop := r.onHangup(t.Context(), nil)
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case l := <-set:
		if len(l) == 0 {
			t.Error("no limits")
		}
	case <-t.Context().Done():
	}
}
