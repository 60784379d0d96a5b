package dispatcher

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
)

// bucketState returns a bucket of 100 tokens a second with left tokens at simBase.
func bucketState(t *testing.T, left float64) []byte {
	t.Helper()
	limit := hundred()
	start := bucket.Request{Op: bucket.OpStart, Promoted: true, Tokens: []float64{100 - left}}
	b, o := bucket.Step(bucket.Bucket{}, bucket.Rules(limit), simBase, start)
	if !o.Started() {
		t.Fatalf("%+v", o)
	}
	state, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func waitingTasks(from, to int) (all []waitlist.Waiting) {
	for i := from; i < to; i++ {
		task := waitlist.Task{Queue: "default", ID: strconv.Itoa(i)}
		all = append(all, waitlist.Waiting{Task: task, Tokens: map[string]float64{"tokens": 1}})
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const delivery = 75 * time.Millisecond
	due := func(change func(*waitlist.Due)) waitlist.Due {
		d := waitlist.Due{Bucket: "fleet", Planned: 7, State: bucketState(t, 0), Heads: waitingTasks(0, 40)}
		change(&d)
		return d
	}
	for _, c := range []struct {
		name  string
		due   waitlist.Due
		now   time.Duration
		first int // of the promoted tasks
		count int
		next  time.Duration
	}{
		{
			name: "before the next look and a delivery", due: due(func(*waitlist.Due) {}), count: 11,
			next: 45 * time.Millisecond,
		},
		{
			name: "later", due: due(func(*waitlist.Due) {}), now: 200 * time.Millisecond, count: 31, next: 45 * time.Millisecond,
		},
		{
			name: "a long wait", due: due(func(d *waitlist.Due) { d.Heads[0].Tokens["tokens"] = 90 }),
			next: 825 * time.Millisecond,
		},
		{
			name: "by the store's clock", due: due(func(d *waitlist.Due) { d.Offset = 200 * time.Millisecond }), count: 31,
			next: 45 * time.Millisecond,
		},
		{name: "promoted tasks come first", count: 7, first: 4, next: 45 * time.Millisecond, due: due(func(d *waitlist.Due) {
			d.Promoted, d.PromotedCount, d.Heads = waitingTasks(0, 4), 4, waitingTasks(4, 40)
		})},
		{name: "all", count: 3, next: lookEvery, due: due(func(d *waitlist.Due) { d.Heads = d.Heads[:3] })},
		{name: "no answer yet", count: 1, next: probeEvery, due: due(func(d *waitlist.Due) { d.State = nil })},
		{name: "it could not be asked", count: 1, next: probeEvery, due: due(func(d *waitlist.Due) { d.Failed = true })},
		{name: "one is asking it", next: probeEvery, due: due(func(d *waitlist.Due) { d.Failed, d.PromotedCount = true, 1 })},
		{name: "more promoted than known", next: lookEvery, due: due(func(d *waitlist.Due) {
			d.PromotedCount = promotedMost + 1
		})},
		{name: "empty", due: due(func(d *waitlist.Due) { d.Heads = nil })},
		{name: "only heads that have left", next: lookEvery, due: due(func(d *waitlist.Due) { d.Heads, d.More = nil, true })},
	} {
		want := waitlist.Plan{Bucket: "fleet", Planned: 7, Next: c.next}
		for i := range c.count {
			want.Promote = append(want.Promote, waitlist.Task{Queue: "default", ID: strconv.Itoa(c.first + i)})
		}
		got, err := plan(c.due, simBase.Add(c.now), delivery)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	unreadable := due(func(d *waitlist.Due) { d.State = []byte("{") })
	if p, err := plan(unreadable, simBase, delivery); err == nil || len(p.Promote) != 1 {
		t.Errorf("unreadable: %+v, %v", p, err)
	}
}
