package fleets_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// letter is a task whose provider takes 100 a day from 08:00 on.
type letter struct{}

func (letter) TaskType() string { return "letter" }
func (letter) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "letters", Tokens: reservations.Tokens{"letters": 1}}}
}

// begun are the tasks that have started, by type.
type begun struct {
	mu  sync.Mutex // guards all
	all map[string][]string
	at  map[string][]time.Time
}

func (b *begun) note(of, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[of], b.at[of] = append(b.all[of], id), append(b.at[of], time.Now())
}

// ticks are the times of the ticks of a schedule.
func (b *begun) ticks(t *testing.T, name string) (all []time.Time) {
	t.Helper()
	for _, id := range b.all["call"] {
		if text, ours := strings.CutPrefix(id, name+"@"); ours {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// A fleet lives through the week in which clocks in Berlin are set back. It has a task each minute, one each hour, and
// one each night. Letters come each morning, and wait for the next day's window if there are too many. On Friday Redis
// is away for ten minutes. On Tuesday the worker is killed, and comes back after five. Each time the last missed tick
// of a schedule starts late, and the ones before are left out.
func TestWeek(t *testing.T) {
	night.Only(t, "takes 100 s")
	t.Parallel()
	const day = 24 * time.Hour
	thursday := time.Date(2026, time.October, 22, 0, 0, 0, 0, time.UTC)
	started := &begun{all: map[string][]string{}, at: map[string][]time.Time{}}
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		usual := headwaytest.Provider{Latency: headwaytest.Between(100*time.Millisecond, 2*time.Second)}
		api, post := f.Provider("api", usual), f.Provider("letters", usual)
		var c worker.Config
		for name, spec := range map[string]string{"minute": "* * * * *", "hour": "30 * * * *", "night": "30 2 * * *"} {
			c.Scheduler.Recurring = append(c.Scheduler.Recurring,
				scheduler.Recurring{Name: name, Spec: spec, Zone: "Europe/Berlin", Args: tick{}})
		}
		f.Workers(1, func(w *worker.Worker) {
			ticking, posting := api.Caller(), post.Caller()
			worker.Handle(w, func(ctx context.Context, job *worker.Job[tick]) error {
				started.note("call", job.ID)
				return ticking.Do(ctx, headwaytest.Call{})
			})
			worker.Handle(w, func(ctx context.Context, job *worker.Job[letter]) error {
				started.note("letter", job.ID)
				return posting.Do(ctx, headwaytest.Call{})
			})
		}, c)
		for i, count := range []int{60, 60, 60, 60, 250, 60, 60} { // 250 on Monday
			f.At(time.Duration(i)*day+10*time.Hour, func() {
				f.Backlog(count, func(int) tasks.Args { return letter{} })
			})
		}
		f.At(day+9*time.Hour+30*time.Second, func() { f.Redis.Down(10 * time.Minute) })
		f.At(5*day+12*time.Hour+30*time.Second, func() { f.Worker(0).Kill() })
		f.At(5*day+12*time.Hour+5*time.Minute+30*time.Second, func() { f.Restart(0) })
		f.Run(7*day + 9*time.Hour + 30*time.Second)
		if r := f.Report(); r.Violations > 0 || r.Lost > 0 || r.Left > 0 || r.Failed > 0 {
			t.Error(r)
		}
	}, headwaytest.Begin(thursday), headwaytest.Limits(requestsOnly, reservations.Limit{
		Name: "letters", Meters: []reservations.Meter{{
			Name: "letters", Kind: reservations.KindWindow, Rate: 100, Period: day,
			Start: 8 * time.Hour,
		}},
	}))

	var minutes []time.Time
	for at := thursday.Add(time.Minute); !at.After(thursday.Add(7*day + 9*time.Hour)); at = at.Add(time.Minute) {
		friday, tuesday := at.Sub(thursday.Add(day+9*time.Hour)), at.Sub(thursday.Add(5*day+12*time.Hour))
		if (friday < time.Minute || friday > 9*time.Minute) && (tuesday < time.Minute || tuesday > 4*time.Minute) {
			minutes = append(minutes, at)
		}
	}
	if got := started.ticks(t, "minute"); !slices.EqualFunc(slices.Compact(got), minutes, time.Time.Equal) {
		t.Errorf("%d minutes of %d", len(got), len(minutes))
	}
	if got := started.ticks(t, "hour"); len(got) != 7*24+9 {
		t.Errorf("%d hours: %v", len(got), got)
	}
	var nights []string
	for _, at := range started.ticks(t, "night") {
		nights = append(nights, at.Format("02 15:04"))
	}
	if !slices.Equal(nights, []string{
		"22 00:30", "23 00:30", "24 00:30", "25 00:30", "26 01:30", "27 01:30", "28 01:30", "29 01:30",
	}) {
		t.Errorf("nights %v", nights)
	}
	windows := make([]int, 8)
	for _, at := range started.at["letter"] {
		windows[at.Sub(thursday.Add(8*time.Hour))/day]++
	}
	if want := []int{60, 60, 60, 60, 100, 100, 100, 70}; !slices.Equal(windows, want) {
		t.Errorf("letters by window %v, want %v", windows, want)
	}
}
