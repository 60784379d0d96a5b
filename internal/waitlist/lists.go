package waitlist

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/lua"
)

// scanned is how many buckets Redis scans for one page of the index.
const scanned = 1000

// List is the waitlist of one bucket, for people.
type List struct {
	Bucket            string
	Waiting, Promoted int
	// Tokens is the sum of the charges of waiting and promoted tasks, by meter.
	Tokens map[string]float64
	// State is from the last answer of the bucket. It is empty if there is no answer.
	State []byte
	// Offset is the store's clock less Redis's, as of that answer.
	Offset time.Duration
	// Now is the time at which all of this was true.
	Now time.Time
	// Next is when the next look is due; zero if none is planned.
	Next time.Time
	// FailedUntil is set if the last request to the bucket failed. No look is due before it.
	FailedUntil time.Time
	// FlowCount is the number of named flows with waiting or promoted tasks. Flows are the ten with the most tasks.
	FlowCount int
	Flows     []Flow
	// Faulty is true if the last request failed for this bucket alone, while the store answers others.
	Faulty bool
}

// Flow is the number of waiting and promoted tasks of a flow.
type Flow struct {
	Flow  string `json:"flow"`
	Tasks int    `json:"tasks"`
}

// Lists returns the waitlists of the buckets whose names begin with the prefix, the longest first. It reads at most
// that many. More is true if there are others.
func (w *Waitlist) Lists(ctx context.Context, prefix string, most int) (lists []List, more bool, err error) {
	buckets, more, err := w.buckets(ctx, prefix, most)
	if err != nil {
		return nil, false, err
	}
	for some := range slices.Chunk(buckets, together) {
		described, err := w.describe(ctx, some)
		if err != nil {
			return nil, false, err
		}
		lists = append(lists, described...)
	}
	lists = slices.DeleteFunc(lists, func(l List) bool { return l.Waiting+l.Promoted == 0 }) // may be empty by now
	slices.SortFunc(lists, func(a, b List) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Bucket, b.Bucket))
	})
	return lists, more, nil
}

// List returns the waitlist of one bucket, also an empty one.
func (w *Waitlist) List(ctx context.Context, bucket string) (List, error) {
	lists, err := w.describe(ctx, []string{bucket})
	if err != nil {
		return List{}, err
	}
	return lists[0], nil
}

// buckets returns names from the index, at most that many.
func (w *Waitlist) buckets(ctx context.Context, prefix string, most int) (buckets []string, more bool, err error) {
	pattern := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(prefix) + "*"
	seen := map[string]bool{} // a scan may return a bucket twice
	for cursor := uint64(0); ; {
		page, next, err := w.client.ZScan(ctx, root+"index", cursor, pattern, scanned).Result()
		if err != nil {
			return nil, false, fmt.Errorf("list the waitlists: %w", err)
		}
		for i := 0; i < len(page); i += 2 { // buckets and scores
			if bucket := page[i]; !seen[bucket] {
				if len(buckets) == most {
					return buckets, true, nil
				}
				seen[bucket] = true
				buckets = append(buckets, bucket)
			}
		}
		if cursor = next; cursor == 0 {
			return buckets, false, nil
		}
	}
}

func (w *Waitlist) describe(ctx context.Context, buckets []string) ([]List, error) {
	r := w.run(ctx, "describe waitlists", w.scripts.lists, lua.Args(buckets)...)
	lists := make([]List, len(buckets))
	for i, bucket := range buckets {
		lists[i] = r.list(bucket)
	}
	return lists, r.err
}

// list reads the answer of describe in the scripts.
func (r *reply) list(bucket string) List {
	l := List{
		Bucket: bucket, Waiting: r.count(), Promoted: r.count(), State: []byte(r.text()),
		Offset: r.duration(), Now: r.moment(), Next: r.moment(), FailedUntil: r.moment(), Faulty: r.flag(),
		Tokens: r.sums(), FlowCount: r.count(),
	}
	for range r.count() {
		l.Flows = append(l.Flows, Flow{Flow: r.text(), Tasks: r.count()})
	}
	return l
}
