package dispatcher

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// Whatever text is stored as the state of a bucket, the dispatcher makes a plan for it: it promotes waiting tasks
// alone, from the head on, and looks again before long.
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
