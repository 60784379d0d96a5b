package waitlist

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// describe adds what is known of a bucket to the answer: how many tasks wait, how many are promoted, state,
// generation, version, offset, now, the next look or 0, the end of the failure or 0, "1" if the bucket alone can't be
// asked, the number of meters, for each its name and sum, how many flows have tasks there, the number of flows that
// follow, for each its name and how many tasks it has.
const describe = `
local function describe(bucket, answer)
	local kept = redis.call("HMGET", root .. "meta:" .. bucket, "state", "generation", "version", "offset", "failed_until",
		"faulty_since")
	local sums = redis.call("HGETALL", root .. "sums:" .. bucket)
	local texts = {
		tostring(count(bucket)), tostring(redis.call("ZCARD", root .. "promoted:" .. bucket)), kept[1] or "", whole(number(kept[2])),
		whole(number(kept[3])), whole(number(kept[4])), whole(now), whole(number(redis.call("ZSCORE", KEYS[1], bucket))),
		whole(number(kept[5])), kept[6] and "1" or "0", tostring(#sums / 2),
	}
	local flows = redis.call("ZREVRANGE", root .. "waiting:" .. bucket, 0, 9, "WITHSCORES")
	local many = {tostring(redis.call("ZCARD", root .. "waiting:" .. bucket)), tostring(#flows / 2)}
	for _, some in ipairs({texts, sums, many, flows}) do
		for _, text in ipairs(some) do
			answer[#answer + 1] = text
		end
	end
end
`

// listsScript describes waitlists. It changes nothing.
//
//	ARGV[2...] -> buckets
//
// Output: for each bucket: see describe.
const listsScript = `
local answer = {}
for i = 2, #ARGV do
	describe(ARGV[i], answer)
end
return answer
`

// scanned is how many buckets Redis goes through for one page of the index.
const scanned = 1000

// List is the waitlist of one bucket, for people.
type List struct {
	Bucket            string
	Waiting, Promoted int
	// Tokens is what waiting and promoted tasks charge together, by meter.
	Tokens map[string]float64
	// State, Generation and Version are those of the bucket's last answer; State is empty if there is none.
	State               []byte
	Generation, Version int64
	// Offset is the store's clock less Redis's, as of that answer.
	Offset time.Duration
	// Now is when all of this is true.
	Now time.Time
	// Next is when the next look is due; zero if none is planned.
	Next time.Time
	// FailedUntil is set if the bucket could not be asked the last time: no look is due before it.
	FailedUntil time.Time
	// FlowCount is how many flows with a name have tasks that wait or are promoted, Flows are the ten that have most.
	FlowCount int
	Flows     []Flow
	// Faulty says that the bucket alone could not be asked the last time.
	Faulty bool
}

// Flow is how many tasks of a flow wait or are promoted.
type Flow struct {
	Name  string
	Tasks int
}

// Lists returns the waitlists of the buckets whose names begin with the prefix, the longest first. It reads at most so
// many, and more says that there are others.
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
	lists = slices.DeleteFunc(lists, func(l List) bool { return l.Waiting+l.Promoted == 0 }) // it has just emptied
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

// buckets returns at most so many names of the index.
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
	args := make([]any, len(buckets))
	for i, bucket := range buckets {
		args[i] = bucket
	}
	r, err := w.run(ctx, "describe waitlists", w.scripts.lists, args...)
	if err != nil {
		return nil, err
	}
	lists := make([]List, len(buckets))
	for i, bucket := range buckets {
		lists[i] = r.list(bucket)
	}
	return lists, r.err
}

// list reads what describe wrote.
func (r *reply) list(bucket string) List {
	l := List{
		Bucket: bucket, Waiting: r.count(), Promoted: r.count(), State: []byte(r.text()),
		Generation: r.int(), Version: r.int(), Offset: r.duration(), Now: r.moment(),
		Next: r.moment(), FailedUntil: r.moment(), Faulty: r.flag(), Tokens: r.sums(), FlowCount: r.count(),
	}
	for range r.count() {
		l.Flows = append(l.Flows, Flow{Name: r.text(), Tasks: r.count()})
	}
	return l
}
