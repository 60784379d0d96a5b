package scheduler

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
)

// Whatever text is stored as the state of a bucket, the dispatcher makes a plan for it: it promotes waiting tasks alone,
// from the head on, and looks again before long.
func FuzzPlan(f *testing.F) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, state := range []string{
		"", "{", "null", "[]", "5", `{"at":"2026-01-01T00:00:00Z"}`,
		`{"at":"2026-01-01T00:00:00Z","version":1,"meters":[{"name":"r","started":5,"reserved":5,` +
			`"filling":{"rate":10,"capacity":10}}]}`,
		`{"At":"2026-01-01T00:00:00Z","Meters":[{"Name":"r","Started":-1e308,"Filling":{"Rate":-1,"Capacity":0}}]}`,
		`{"At":"0001-01-01T00:00:00Z","Meters":[{"Name":"r","Filling":{"Rate":1e-300,"Capacity":1e300,"Period":1}}]}`,
		`{"At":"9999-12-31T23:59:59Z","Blocked":"9999-12-31T23:59:59Z","Meters":[{"Name":"in_flight",` +
			`"Filling":{"InFlight":true,"Capacity":1},"Leased":[{"until":"9999-12-31T23:59:59Z","n":-5}]}]}`,
		`{"At":"2025-12-31T00:00:00Z","Meters":[{"Name":"r","Filling":{"Rate":1,"Capacity":1,"Period":1,"Offset":-9e18}}]}`,
	} {
		f.Add([]byte(state), 1.0, int64(0))
		f.Add([]byte(state), 1e15, int64(-1<<62))
	}
	f.Fuzz(func(t *testing.T, state []byte, tokens float64, offset int64) {
		heads := make([]waitlist.Waiting, 3)
		for i, id := range []string{"a", "b", "c"} {
			heads[i] = waitlist.Waiting{
				Task:   waitlist.Task{Queue: "default", ID: id},
				Tokens: map[string]float64{"r": tokens, "in_flight": 1},
			}
		}
		p, err := plan(waitlist.Due{
			Bucket: "api", State: state, Offset: time.Duration(offset), Heads: heads,
		}, now, 75*time.Millisecond)
		if err != nil && len(p.Promote) != 1 {
			t.Errorf("%q: %v, and no task finds out whether the bucket answers", state, err)
		}
		if p.Next <= 0 {
			t.Errorf("%q: next look in %v", state, p.Next)
		}
		for i, task := range p.Promote {
			if i >= len(heads) || task != heads[i].Task {
				t.Errorf("%q: promoted %v", state, p.Promote)
			}
		}
	})
}

// Whatever a schedule says, it is refused, or its ticks come one after the other, and the last one before a moment is
// the one after which there is none before it.
func FuzzSchedule(f *testing.F) {
	for _, spec := range []string{
		"* * * * *", "0 3 * * *", "@daily", "@every 5m", "@every 1s", "@every 9999999h", "0 0 29 2 *", "0 0 30 2 *",
		"0 0 31 4,6 1", "TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=../../etc/passwd * * * * *", "*/0 * * * *", "1-99 * * * *",
		"@every -1s", "@reboot", "", "\x00", "*/1000000000000 * * * *", "@every 1ns", "59 23 31 12 0-7",
	} {
		f.Add(spec, "", int64(1_767_225_600))
		f.Add(spec, "Europe/Berlin", int64(1_774_746_000)) // about where summer time begins
	}
	f.Fuzz(func(t *testing.T, spec, zone string, seconds int64) {
		s, err := parseSchedule(spec, zone)
		if err != nil || seconds < 0 || seconds > 4_000_000_000 {
			return
		}
		now := time.Unix(seconds, 0)
		first := s.next(now)
		if first.IsZero() {
			return
		}
		second := s.next(first)
		if !first.After(now) || !second.IsZero() && !second.After(first) {
			t.Errorf("%q: %v, %v, %v", spec, now, first, second)
		}
		if last := s.last(now, first); !last.Equal(first) {
			t.Errorf("%q: the last tick until %v is %v", spec, first, last)
		}
		if last := s.last(now, first.Add(-time.Nanosecond)); !last.IsZero() {
			t.Errorf("%q: there is a tick at %v before %v", spec, last, first)
		}
	})
}

// Whatever text asynq keeps as the last error of a task, its cause is a part of it.
func FuzzCause(f *testing.F) {
	when := ": until 2026-01-01T00:00:00.000Z, 1s from 2026-01-01T00:00:00.000Z: "
	f.Add("waiting for limit api (waiting)" + when + "store away")
	f.Add("waiting for limit api" + when + when)
	f.Add("waiting, refused by the provider: until \x1b[2J\nZ")
	f.Fuzz(func(t *testing.T, text string) {
		if cause := causeIn(text); cause != "" && (len(cause) >= len(text) || text[len(text)-len(cause):] != cause) {
			t.Errorf("%q has the cause %q", text, cause)
		}
	})
}
