package fleet

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

// rogue is a service that refuses its first call for three years, and serves all others.
type rogue struct {
	*httptest.Server

	refused chan time.Time
	served  chan time.Time
}

func newRogue(t *testing.T) *rogue {
	t.Helper()
	r := &rogue{refused: make(chan time.Time, 1), served: make(chan time.Time, 100)}
	var once sync.Once
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		first := false
		once.Do(func() { first = true })
		if first {
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(http.StatusTooManyRequests)
			r.refused <- time.Now()
			return
		}
		r.served <- time.Now()
	}))
	t.Cleanup(r.Close)
	return r
}

// TestRogueRetryAfter has one task of one tenant blocked for three years: the others wait for max_block at most, and
// start at once after `limits reset` or `limits unblock`. The patience of the test is shorter than a block.
func TestRogueRetryAfter(t *testing.T) {
	t.Parallel()
	const others = 5
	for name, tc := range map[string]struct {
		setting string // of the limit
		most    time.Duration
		command string // ends the block
	}{
		"max_block": {"max_block: 2s, ", 2 * time.Second, ""},
		"reset":     {"max_block: 1h, ", time.Hour, "reset"},
		"unblock":   {"max_block: 1h, ", time.Hour, "unblock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, _, _ := deadWorld(t)
			service := newRogue(t)
			file := filepath.Join(t.TempDir(), "headway.yaml")
			text := fmt.Sprintf("limits: {api: {%smeters: {requests: 100/s}}}\nhttp: {allow_hosts: [%q]}\n",
				tc.setting, service.Listener.Addr())
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			fleet := openWorld(t, env, file)
			enqueue := func(n int) {
				t.Helper()
				for range n {
					task := web.Request{URL: service.URL, Terms: tasks.Terms{Taken: []reservations.Charge{
						{Limit: "api", Tokens: reservations.Tokens{"requests": 1}},
					}}}
					if _, err := fleet.Scheduler.Enqueue(t.Context(), task); err != nil {
						t.Fatal(err)
					}
				}
			}
			enqueue(1)
			work(t, env, file)
			refused := next(t, service.refused)
			waiting := func(n int) {
				t.Helper()
				until(t, fmt.Sprint(n, " tasks wait"), func() bool {
					w, err := inside.Of(fleet.Scheduler).Waitlist(t.Context(), "api")
					return err == nil && w.Waiting == n
				})
			}
			until(t, "the limit is blocked", func() bool {
				v, err := fleet.Limiter.View(t.Context(), "api", "")
				return err == nil && v.Blocked > 0 || time.Now().After(refused.Add(tc.most))
			})
			if tc.command != "" {
				waiting(1)
			}
			enqueue(others)
			if tc.command != "" {
				waiting(1 + others)
				v, err := fleet.Limiter.View(t.Context(), "api", "")
				if err != nil || v.Blocked <= tc.most-patience || v.Blocked > tc.most {
					t.Errorf("blocked for %v, %v", v.Blocked, err)
				}
				b := &limitsBundle{t: t, file: file, env: env}
				b.run(cli.ExitOK, nil, tc.command, "api")
			}
			for range 1 + others {
				at := next(t, service.served)
				if tc.command == "" && at.Sub(refused) < tc.most-100*time.Millisecond {
					t.Errorf("called %v after a refusal that blocks for %v", at.Sub(refused), tc.most)
				}
			}
		})
	}
}

// work has `headway worker` serve until the test ends.
func work(t *testing.T, env map[string]string, file string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(contextOf(t, env)))
	var out bytes.Buffer
	var done sync.WaitGroup
	done.Go(func() {
		e := cli.Environment{Getenv: func(k string) string { return env[k] }, Out: &out, Err: &out}
		code := cli.Run(ctx, rootCommand, []string{"worker", "--config", file}, e)
		if code != cli.ExitOK && code != cli.ExitInterrupted {
			t.Errorf("headway worker: exit %d: %s", code, out.String())
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// next receives the next moment.
func next(t *testing.T, c <-chan time.Time) time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case at := <-c:
		return at
	case <-ctx.Done():
		t.Fatal("in vain")
		return time.Time{}
	}
}
