package fleets_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// The rate is raised, lowered, changed in the file below an override, and taken back, while tasks wait. The API has the
// lower rate three seconds after the fleet could know it, and the higher rate at once. Each rate is used, and the order
// is kept.
func TestLimitChangesWhileTasksWait(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const count = 560
		f.Backlog(count, numbered)
		f.start(size)
		f.await(20)
		f.explainOne(count/2, 10)
		set := func(rate float64) {
			f.override(reservations.Override{Limit: "api", Meter: "requests", Rate: rate, Period: time.Second, Capacity: 5})
		}
		for _, p := range []struct {
			name   string
			rate   float64
			change func()
		}{
			{"raised", 20, func() { set(20) }},
			{"lowered", 5, func() { set(5) }},
			{"reloaded", 5, func() { f.SetLimits(limit(perSecond(15, 5))) }}, // the override still counts
			{"taken back", 15, func() { f.override() }},
		} {
			p.change()
			higher := p.rate > f.api.Meters[0].Rate
			if higher {
				f.api.SetMeters(perSecond(p.rate, 5))
			}
			f.Run(followed)
			if !higher {
				f.api.SetMeters(perSecond(p.rate, 5))
			}
			f.explainOne(count-60, p.rate)
			from := time.Now()
			f.Run(7 * time.Second)
			n, _, _ := f.callsIn(from, time.Now())
			t.Logf("%s: %d calls of %g", p.name, n, p.rate*7)
			if float64(n)+1 < .99*p.rate*7 {
				t.Errorf("%s: %d calls in 7 s, and the rate allows %g", p.name, n, p.rate*7)
			}
		}
		if f.Report().Left < 50 {
			t.Errorf("no task waited to the end: %v", f.Report())
		}
		r := f.end(count)
		f.wantOnce()
		f.wantInOrder(5, nil)
		f.wantDeliveries(r, 1.1)
	})
}

// explainOne wants the explanation of a waiting task to name its place and the time of its turn.
func (f *fleet) explainOne(n int, rate float64) {
	f.t.Helper()
	e, err := f.Scheduler().Explain(f.Context(), envelope.QueueDefault, fmt.Sprintf("t%05d", n))
	if err != nil || e.Waits == nil || e.Reason != scheduler.ReasonLimit {
		f.t.Fatalf("explain task %d: %v: %+v", n, err, e)
	}
	in, expected := e.Until.Sub(e.Now).Seconds(), float64(e.Waits.Position)/rate
	f.t.Logf("place %d of %d, its turn in %.2f s, by the rate it is %.2f s", e.Waits.Position, e.Waits.Of, in, expected)
	if !e.Waits.Reserved || e.Waits.Bucket != "api" || e.Waits.Position < 1 || math.Abs(in-expected) > .02*expected+.2 {
		f.t.Errorf("place %d of %d, its turn in %.2f s; by the rate it is %.2f s", e.Waits.Position, e.Waits.Of, in, expected)
	}
	if text := fmt.Sprintf("number %d of %d", e.Waits.Position, e.Waits.Of); !strings.Contains(e.Summary(), text) {
		f.t.Errorf("%q is missing in %q", text, e.Summary())
	}
}

// A quota of 60 calls a day, which begins at 08:00. Tasks for two and a half days arrive at 07:58. The fleet is stopped
// over night. Each task starts on the day of its place.
func TestDailyWindow(t *testing.T) {
	day := reservations.PerDay("requests", 60)
	day.Start = 8 * time.Hour
	api := usual
	api.Meters = []reservations.Meter{
		{Name: "requests", Kind: reservations.KindWindow, Rate: 60, Period: 24 * time.Hour, Start: 8 * time.Hour},
	}
	begin := time.Date(2026, time.March, 2, 7, 58, 0, 0, time.UTC)
	in(t, world{
		limits: []reservations.Limit{limit(day)}, provider: api, options: []headwaytest.Option{headwaytest.Begin(begin)},
	}, func(f *fleet) {
		const count = 150
		f.start(2)
		f.Backlog(count, numbered)
		f.Run(7 * time.Minute) // until 08:05
		wants := []int{120, 150}
		for i, want := range wants {
			if n := len(f.made()); n != want {
				t.Errorf("%d calls until %v, wanted %d", n, time.Now(), want)
			}
			if i == len(wants)-1 {
				break
			}
			for n := range 2 {
				f.Worker(n).Stop()
			}
			f.Run(23*time.Hour + 50*time.Minute) // until 07:55
			for n := range 2 {
				f.Restart(n)
			}
			f.Run(10 * time.Minute)
		}
		f.end(count)
		f.wantOnce()
		late := time.Duration(0)
		for i, m := range f.made() {
			var number int
			if _, err := fmt.Sscanf(m.task, "t%05d", &number); err != nil || number/60 != i/60 {
				t.Errorf("task %s started as number %d, on another day than its own", m.task, i)
			}
			opens := m.at.Truncate(24 * time.Hour).Add(8 * time.Hour)
			if m.at.After(opens) {
				late = max(late, m.at.Sub(opens))
			}
		}
		t.Logf("the last call of a day came %v after its begin", late)
		if late > time.Second {
			t.Errorf("a call came %v after the begin of its day", late)
		}
	})
}

// Redis loses the waitlists. Order and time are lost, and nothing else: asynq delivers the tasks about two minutes
// after their expected times, they join the waitlists again, and no limit is exceeded.
func TestWaitlistsLost(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const count = 300
		f.Backlog(count, numbered)
		f.start(size)
		f.await(50)
		client := f.Client()
		keys, err := client.Keys(f.Context(), "headway:{wait}*").Result()
		if err != nil || len(keys) < 3 {
			t.Fatalf("the waitlists: %v, %v", keys, err)
		}
		if err = client.Del(f.Context(), keys...).Err(); err != nil {
			t.Fatal(err)
		}
		r := f.end(count)
		t.Logf("%d keys deleted, last start %v, %.3f deliveries", len(keys), r.LastStart, r.Deliveries)
		f.wantOnce()
		f.wantDeliveries(r, 2)
		if r.LastStart > 3*time.Minute { // asynq delivers each task two minutes after its expected time
			t.Errorf("want the last start within 3m: %v", r)
		}
		archived, err := f.inspector().ListArchivedTasks(envelope.QueueDefault, asynq.PageSize(count))
		if err != nil || len(archived) > 0 {
			t.Errorf("%d tasks in the archive, %v", len(archived), err)
		}
	})
}
