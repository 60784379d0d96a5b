package waitlist_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
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

// The callers of a flow arrive twice as fast as the flow can start them, and each waits for a short time only. Beside
// the backlog of another flow their flow keeps its share.
func TestCallersThatGiveUpKeepTheShareOfTheirFlow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		const rounds, patience = 60, 4
		of := func(t waitlist.Task, flow string) waitlist.Entry {
			return waitlist.Entry{Task: t, Bucket: "openai", Turns: class.Turns{Flow: flow, Cost: 1}}
		}
		for i := range 2 * rounds {
			f.join(of(task(fmt.Sprintf("%03d", i)), "backlog"))
		}
		var waiting []waitlist.Task
		started := 0
		for round := range rounds {
			for i := range 2 {
				caller := waitlist.Caller("p", strconv.Itoa(2*round+i))
				f.join(of(caller, "callers"))
				waiting = append(waiting, caller)
			}
			if round >= patience {
				gone := waiting[2*(round-patience) : 2*(round-patience)+2]
				_, err := f.Leave(t.Context(), gone)
				f.check(err)
			}
			f.sooner()
			due := f.due()
			plan := waitlist.Plan{Bucket: due.Bucket, Planned: due.Planned, Next: time.Minute}
			for _, head := range due.Heads[:2] {
				plan.Promote = append(plan.Promote, head.Task)
				if _, _, caller := head.Process(); caller {
					started++
				}
			}
			_, _, err := f.Promote(t.Context(), "me", []waitlist.Plan{plan})
			f.check(err)
			f.check(f.Report(t.Context(), waitlist.Reported{Begun: plan.Promote}))
		}
		t.Logf("%d of %d starts are callers", started, 2*rounds)
		if started < rounds*4/5 || started > rounds*6/5 {
			t.Errorf("%d callers of %d starts, want about half", started, 2*rounds)
		}
	})
}
