package waitlist_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
)

func TestCallers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		p := t.Name() // unique among the tests that share the server
		p = p[len(p)-5:] + time.Now().Format("150405.000000000")
		caller := waitlist.Caller(p, "7")
		process, number, ok := caller.Process()
		same(t, "process", p, process)
		same(t, "number", "7", number)
		same(t, "a caller", true, ok)
		_, _, ok = waitlist.Task{Queue: "default", ID: p + "/7"}.Process()
		same(t, "a task", false, ok)

		for i, want := range []bool{true, false} {
			missed, err := f.Live(t.Context(), p, time.Minute)
			f.check(err)
			same(t, []string{"first sign", "second sign"}[i], want, missed)
		}
		dead, err := f.Dead(t.Context(), []string{p, "other"})
		f.check(err)
		same(t, "dead", map[string]bool{"other": true}, dead)

		heard := make(chan string, 9)
		stop := f.ListenCalls(t.Context(), p, func(number string) { heard <- number })
		defer stop()
		f.await("headway:{wait}:call:" + p)
		f.check(f.Call(t.Context(), []waitlist.Task{
			caller, {Queue: "default", ID: "8"}, waitlist.Caller("other", "9"), waitlist.Caller(p, "10"),
		}))
		same(t, "first", "7", <-heard)
		same(t, "second", "10", <-heard)
	})
}
