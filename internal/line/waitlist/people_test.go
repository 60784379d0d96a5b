package waitlist_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestPosition(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		position := func(queue, id string) waitlist.Position {
			t.Helper()
			p, err := f.Position(t.Context(), waitlist.Task{Queue: queue, ID: id})
			f.check(err)
			return p
		}
		p := position("default", "stranger")
		same(t, "stranger", waitlist.Position{List: waitlist.List{Now: p.List.Now}}, p)
		if p.List.Now.IsZero() {
			t.Error("no time")
		}
		var all []waitlist.Entry
		for i := range 700 {
			e := entry(fmt.Sprintf("%03d", i))
			e.Queue = fmt.Sprint("q", i%3)
			e.Flow = strconv.Itoa(i % 2) // so two tasks have the same tag
			e.Tokens = map[string]float64{"requests": 1, "tokens": float64(i)}
			all = append(all, e)
		}
		f.join(all...)
		due := f.due()
		for i, h := range due.Heads {
			if i%20 != 0 {
				continue
			}
			p = position(h.Queue, h.ID)
			sum := 0.
			for _, before := range due.Heads[:i] {
				sum += before.Tokens["tokens"]
			}
			same(t, "rank", i+1, p.Rank)
			if same(t, "exact near the head", i <= 100, p.Exact); p.Exact {
				same(t, "tokens ahead", sum, p.TokensAhead["tokens"])
			}
			same(t, "tokens", h.Tokens, p.Tokens)
			same(t, "of", 700, p.List.Waiting)
			near, err := f.Near(t.Context(), h.Task)
			f.check(err)
			same(t, "near", i+1, near.Rank)
			same(t, "exact nearer for many", i <= 32, near.Exact)
		}
		plan := waitlist.Plan{Bucket: "openai", Planned: due.Planned, Promote: tasksOf(due.Heads[:3])}
		_, _, err := f.Promote(t.Context(), "me", []waitlist.Plan{plan})
		f.check(err)
		third := due.Heads[2]
		p = position(third.Queue, third.ID)
		same(t, "promoted", waitlist.StatePromoted, p.State)
		same(t, "rank", 0, p.Rank)
		same(t, "the promoted ones before it", map[string]float64{"requests": 2, "tokens": 1}, p.TokensAhead)
		if since := p.List.Now.Sub(p.Since); since < -time.Millisecond || f.server != nil && since > 0 {
			t.Errorf("promoted %v ago", since)
		}
		p = position(due.Heads[4].Queue, due.Heads[4].ID)
		want := map[string]float64{"requests": 4, "tokens": 6}
		same(t, "behind three promoted ones and one that waits", want, p.TokensAhead)
		same(t, "rank", 2, p.Rank)
		p = position("q0", "699")
		same(t, "exact", false, p.Exact)
		same(t, "about", 698., math.Round(p.TokensAhead["requests"]))
	})
}

func TestListsAreSorted(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		for i, bucket := range []string{"a*b", "a*c", "axb", `[?\`} {
			for n := range i + 1 {
				e := entry(fmt.Sprint(bucket, n))
				e.Bucket = bucket
				f.join(e)
			}
		}
		names := func(prefix string) (names []string) {
			t.Helper()
			lists, _, err := f.Lists(t.Context(), prefix, 10)
			f.check(err)
			for _, l := range lists {
				names = append(names, fmt.Sprint(l.Bucket, " ", l.Waiting))
			}
			return names
		}
		same(t, "all", []string{`[?\ 4`, "axb 3", "a*c 2", "a*b 1"}, names(""))
		same(t, "prefix", []string{"a*c 2", "a*b 1"}, names("a*"))
		same(t, "pattern", []string{`[?\ 4`}, names(`[?\`))
	})
}

// Names and texts are any bytes, and numbers anything that a float64 can be.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		for i, text := range []string{"", " ", "a/b", "in:x 1 2", "é%2f%", strings.Repeat("x", 1<<16)} {
			e := waitlist.Entry{
				Task: waitlist.Task{Queue: text, ID: text}, Bucket: text, Info: []byte(text),
				Turns: class.Turns{
					Class: text, Tenant: text, Flow: text, Cost: []float64{math.NaN(), math.Inf(1), -1, 0, 1e300}[i%5],
				},
				Tokens: map[string]float64{"m\x00": 1e-300},
			}
			f.join(e)
			due := f.due()
			same(t, "bucket", text, due.Bucket)
			same(t, "task", e.Task, due.Heads[0].Task)
			plan := waitlist.Plan{Bucket: text, Planned: due.Planned, Promote: []waitlist.Task{e.Task}}
			promoted, _, err := f.Promote(t.Context(), "me", []waitlist.Plan{plan})
			f.check(err)
			same(t, "promoted", []waitlist.Task{e.Task}, promoted)
			left, err := f.Leave(t.Context(), promoted)
			f.check(err)
			same(t, "info", text, string(left[0].Info))
			same(t, "held", []waitlist.Held{{Bucket: text}}, left[0].Held)
		}
		bad := entry("a")
		bad.Tokens = map[string]float64{"requests": math.NaN()}
		_, err := f.Join(t.Context(), waitlist.Reported{}, bad)
		if err == nil || !strings.Contains(err.Error(), "default/a") {
			t.Errorf("tokens that are no number: %v", err)
		}
	})
}

func TestErrorsOfRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.server.SetError("LOADING busy")
		ctx, plans := t.Context(), []waitlist.Plan{{Bucket: "openai"}}
		for operation, call := range map[string]func() error{
			"join":   func() error { _, err := f.Join(ctx, waitlist.Reported{}, entries("a")...); return err },
			"report": func() error { return f.Report(ctx, waitlist.Reported{Begun: tasks("a")}) },
			"fail": func() error {
				_, _, err := f.Fail(ctx, "openai", waitlist.Failure{Shortest: time.Second, Longest: time.Minute})
				return err
			},
			"recover":  func() error { return f.Recover(ctx) },
			"resign":   func() error { return f.Resign(ctx, "me") },
			"arrive":   func() error { _, err := f.Arrive(ctx, []waitlist.Arrival{{Task: task("a")}}); return err },
			"leave":    func() error { _, err := f.Leave(ctx, tasks("a")); return err },
			"look":     func() error { _, err := f.Look(ctx, duty("me"), nil); return err },
			"promote":  func() error { _, _, err := f.Promote(ctx, "me", plans); return err },
			"promoted": func() error { _, err := f.AllPromoted(ctx); return err },
			"list":     func() error { _, err := f.List(ctx, "openai"); return err },
			"lists":    func() error { _, _, err := f.Lists(ctx, "", 1); return err },
			"position": func() error { _, err := f.Position(ctx, task("a")); return err },
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), "LOADING") {
				t.Errorf("%s: %v", operation, err)
			}
		}
	})
}

func TestListen(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { listens(t, inMemory(t)) })
	})
	t.Run("redis", func(t *testing.T) { // a server of its own, because messages cross the databases of a server
		t.Parallel()
		night.Only(t, "it starts a Redis of its own")
		listens(t, fixtureOf(t, connect(t, testenv.StartRedisServer(t).URL())))
	})
}

func listens(t *testing.T, f fixture) {
	t.Helper()
	looks := make(chan time.Duration, 10)
	stop := f.Listen(t.Context(), func(d time.Duration) { looks <- d })
	defer stop()
	f.await("headway:{wait}:wake")
	f.join(entry("a"))
	same(t, "joined", time.Duration(0), <-looks)
	f.join(entry("b")) // the look is planned already
	f.promote(f.due())
	f.sooner()
	same(t, "sooner", time.Duration(0), <-looks)
	f.check(f.client.Publish(t.Context(), "headway:{wait}:wake", "nonsense").Err())
	f.check(f.Resign(t.Context(), "me"))
	same(t, "resigned", -time.Microsecond, <-looks)
	stop()
	same(t, "messages", 0, len(looks))
}

// await waits until a process listens.
func (f fixture) await(channel string) {
	f.t.Helper()
	for f.client.PubSubNumSub(f.t.Context(), channel).Val()[channel] == 0 {
		f.pass(time.Millisecond)
		if f.t.Context().Err() != nil {
			f.t.Fatal("no process listens")
		}
	}
}

func TestListenEndsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.server.Wire.Set(network.Refuse)
		stop := f.Listen(t.Context(), func(time.Duration) { t.Error("a look") })
		stop()
	})
}

// Redis loses all data: tasks are new again, and join again.
func TestRedisLosesTheWaitlists(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.join(entries("a", "b")...)
		due := f.due()
		f.check(f.client.FlushDB(t.Context()).Err())
		plan := waitlist.Plan{Bucket: "openai", Planned: due.Planned, Promote: tasks("a")}
		_, onDuty, err := f.Promote(t.Context(), "me", []waitlist.Plan{plan})
		f.check(err)
		same(t, "on duty", false, onDuty)
		same(t, "state", waitlist.StateNew, f.arrive("a").State)
		f.join(entries("b", "a")...)
		same(t, "heads", []string{"b", "a"}, ids(f.due().Heads, waiting))
	})
}

// A person reads the beginning of a waitlist in the order in which its tasks start, with the flows of the tasks.
func TestHeads(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		var all []waitlist.Entry
		for i := range 30 {
			e := entry(fmt.Sprintf("%02d", i))
			e.Flow = strconv.Itoa(i % 2)
			if i%3 == 0 {
				e.Tenant = "acme"
			}
			all = append(all, e)
		}
		f.join(all...)
		due := f.due()
		first, more, err := f.Heads(t.Context(), all[0].Bucket, 10)
		f.check(err)
		same(t, "more", true, more)
		same(t, "number", 10, len(first))
		for i, h := range first {
			same(t, fmt.Sprint("place ", i), due.Heads[i].Task, h.Task)
			n, bad := strconv.Atoi(h.ID)
			f.check(bad)
			same(t, h.ID, waitlist.FlowName(all[n].Tenant, all[n].Flow), h.Flow)
		}
		first, more, err = f.Heads(t.Context(), "nothing", 10)
		f.check(err)
		same(t, "of an empty one", 0, len(first))
		same(t, "more of an empty one", false, more)
	})
}
