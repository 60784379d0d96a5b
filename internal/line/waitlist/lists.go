package waitlist

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// Queues is the number of waiting tasks by queue.
	Queues map[string]int
	// Faulty is true if the last request failed for this bucket alone, while the store answers others.
	Faulty bool
}

// Flow is the number of waiting and promoted tasks of a flow.
type Flow struct {
	// Flow is its FlowName.
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

// Head is one of the first tasks of a waitlist, for people.
type Head struct {
	Task

	// Flow is its FlowName; empty for a promoted task.
	Flow     string
	Promoted bool
}

// Heads returns the promoted tasks of a bucket, then the waiting ones in the order in which they start: at most that
// many of each. More is true if others wait.
func (w *Waitlist) Heads(ctx context.Context, bucket string, most int) (first []Head, more bool, err error) {
	var answer struct {
		Promoted []string
		Waiting  waitingText
	}
	a := args{"bucket": bucket, "most": max(1, most)}
	if err := w.read(ctx, "read the waitlist of "+bucket, w.scripts.heads, a, &answer); err != nil {
		return nil, false, err
	}
	for _, t := range named(answer.Promoted) {
		first = append(first, Head{Task: t, Promoted: true})
	}
	waiting := ordered(answer.Waiting.lanes())
	waiting = waiting[:min(most, len(waiting))]
	for _, h := range waiting {
		first = append(first, Head{Task: h.Task, Flow: FlowName(h.tenant, h.flow)})
	}
	return first, answer.Waiting.Waiting > len(waiting), nil
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
	var answer struct{ Lists []listText }
	if err := w.read(ctx, "describe waitlists", w.scripts.lists, args{"buckets": buckets}, &answer); err != nil {
		return nil, err
	}
	lists := make([]List, len(answer.Lists))
	for i := range lists {
		lists[i] = answer.Lists[i].list()
	}
	return lists, nil
}

// listText is the answer of describe in the scripts.
type listText struct {
	Bucket            string
	Waiting, Promoted int
	Sums, Parts       sums
	State             string
	Offset, Now, Next micros
	FailedUntil       micros `json:"failed_until"`
	Faulty            bool
	FlowCount         int `json:"flow_count"`
	Flows             []struct {
		Tenant, Flow string
		Tasks        int
	}
}

// FlowName is the name of a flow for people: that of its tenant precedes it.
func FlowName(tenant, flow string) string {
	if tenant == "" || flow == "" {
		return tenant + flow
	}
	return tenant + "/" + flow
}

func (t *listText) list() List {
	l := List{
		Bucket: t.Bucket, Waiting: t.Waiting, Promoted: t.Promoted, Tokens: t.Sums.tokens(), State: []byte(t.State),
		Offset: t.Offset.duration(), Now: t.Now.moment(), Next: t.Next.moment(), FailedUntil: t.FailedUntil.moment(),
		Faulty: t.Faulty, FlowCount: t.FlowCount, Queues: map[string]int{},
	}
	for part, n := range t.Parts.tokens() {
		escaped, _, _ := strings.Cut(part, "\x00") // its class
		if queue, err := url.PathUnescape(escaped); err == nil {
			l.Queues[queue] += int(n)
		}
	}
	for _, f := range t.Flows {
		l.Flows = append(l.Flows, Flow{Flow: FlowName(f.Tenant, f.Flow), Tasks: f.Tasks})
	}
	return l
}

// sums are names of meters and their tokens, in turn.
type sums []string

// tokens skips malformed sums.
func (s sums) tokens() map[string]float64 {
	tokens := map[string]float64{}
	for i := 0; i+1 < len(s); i += 2 {
		if n, err := strconv.ParseFloat(s[i+1], 64); err == nil {
			tokens[s[i]] = n
		}
	}
	return tokens
}
