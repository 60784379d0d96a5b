package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
)

// Two more keys below root:
//
//	revised    string: the revision whose limits the lines go by
//	revising   string: who is making them go by another one; it ends with the lease
const (
	keyRevised  = root + "revised"
	keyRevising = root + "revising"
)

const (
	// reviseLease is how long a process has to ask the next buckets, until another may take its turn.
	reviseLease = 10 * time.Second
	// reviseEnd bounds the giving up of the lease.
	reviseEnd = 2 * time.Second
	// reviseTogether is how many lines are read, and reviseSide how many buckets are asked side by side.
	reviseTogether = 256
	reviseSide     = 8
	// reviseFaults is how many buckets can't be asked until the store is taken to be down.
	reviseFaults = 8
)

// claimScript takes the lease where the lines go by another revision and nobody holds it. KEYS -> revising, revised; ARGV -> id, revision,
// milliseconds. Output: "done", "claimed" or "taken", and the revision that the lines go by.
const claimScript = `
local revised = redis.call("GET", KEYS[2]) or ""
if revised == ARGV[2] then
	return {"done", revised}
end
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then
	return {"claimed", revised}
end
return {"taken", revised}
`

// renewScript extends the lease of whoever holds it. KEYS[1] -> revising, ARGV[1] -> id, ARGV[2] -> milliseconds. Output: 1 where it does.
const renewScript = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0
`

// revisedScript ends the lease, and notes that the lines go by a revision. KEYS -> revising, revised; ARGV -> id, revision, empty where
// that failed. Output: 1 where the lease was still held.
const revisedScript = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
	return 0
end
redis.call("DEL", KEYS[1])
if ARGV[2] ~= "" then
	redis.call("SET", KEYS[2], ARGV[2])
end
return 1
`

// errLeaseLost ends the turn of a process that was too slow.
var errLeaseLost = errors.New("another process took over")

// Revise lets those who wait go by limits that have changed from before to after, which are the limiter's: it asks each bucket in whose
// line tasks wait for its new clock, and moves the line by the answer, so that they come earlier or later without a delivery. Where before is
// nil, or not what the lines go by, all are asked, else those whose limit is another. Of all processes that call it for the same limits one at
// a time does the asking; for the others, and where the asking ended early (the error says why), done is false: call it again, e.g. every 2
// seconds, until it is true. Limits that the lines go by already cost one call to Redis. Buckets of limits that this process does not know are
// left alone. Without a limiter there is nothing to do.
func (s *Scheduler) Revise(ctx context.Context, before, after *reservations.LimitSet) (done bool, err error) {
	if s.limiter == nil {
		return true, nil
	}
	id, revision := uuid.NewString(), after.Revision()
	claim, err := redis.NewScript(claimScript).Run(ctx, s.lines.client, []string{keyRevising, keyRevised}, id, revision, reviseLease.Milliseconds()).StringSlice()
	if err != nil {
		return false, fmt.Errorf("claim to revise the lines: %w", err)
	}
	if claim[0] != "claimed" {
		return claim[0] == "done", nil
	}
	changed := func(limit, key string) bool { return !after.SameFor(before, limit, key) }
	if before == nil || claim[1] != before.Revision() {
		changed = func(string, string) bool { return true }
	}
	if err = s.reviseLines(ctx, id, changed); err != nil {
		return false, fmt.Errorf("revise the lines: %w", errors.Join(err, s.endRevision(ctx, id, "")))
	}
	if err = s.endRevision(ctx, id, revision); err != nil {
		return false, fmt.Errorf("revise the lines: %w", err)
	}
	return true, nil
}

// endRevision gives up the lease, also when ctx has ended, and notes what the lines go by unless revision is empty.
func (s *Scheduler) endRevision(ctx context.Context, id, revision string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviseEnd)
	defer cancel()
	held, err := redis.NewScript(revisedScript).Run(ctx, s.lines.client, []string{keyRevising, keyRevised}, id, revision).Int()
	if err == nil && held == 0 && revision != "" {
		err = errLeaseLost
	}
	return err
}

// reviseLines asks the buckets of all lines, as long as the lease is held.
func (s *Scheduler) reviseLines(ctx context.Context, id string, changed func(limit, key string) bool) error {
	buckets, err := s.lines.bucketsOf(ctx, changed)
	if err != nil {
		return err
	}
	renew := redis.NewScript(renewScript)
	var faults []error
	for together := range slices.Chunk(buckets, reviseTogether) {
		if err := s.reviseBuckets(ctx, together, &faults); err != nil {
			return err
		}
		if held, err := renew.Run(ctx, s.lines.client, []string{keyRevising}, id, reviseLease.Milliseconds()).Int(); err != nil || held == 0 {
			return errors.Join(err, errLeaseLost)
		}
	}
	return errors.Join(faults...)
}

// bucketsOf are the buckets in whose lines tasks wait: all of them at once, for what moves a line also moves it in the index.
func (l lines) bucketsOf(ctx context.Context, wanted func(limit, key string) bool) (buckets []string, err error) {
	seen := map[string]bool{} // a bucket may have lines of several generations
	for cursor := uint64(0); ; {
		found, next, err := l.client.ZScan(ctx, root+"index", cursor, "", reviseTogether).Result()
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(found); i += 2 { // members and scores
			bucket := bucketOfLine(found[i])
			if bucket == "" || seen[bucket] {
				continue
			}
			seen[bucket] = true
			if c := reservations.ParseBucket(bucket); wanted(c.Limit, c.Key) {
				buckets = append(buckets, bucket)
			}
		}
		if cursor = next; cursor == 0 {
			return buckets, nil
		}
	}
}

// bucketOfLine is the bucket of a line of the index, empty for those that have none.
func bucketOfLine(line string) string {
	at := strings.LastIndexByte(line, '@')
	if at < 0 {
		return ""
	}
	return line[:at]
}

// reviseBuckets asks buckets, a few side by side, and moves their lines by the answers: before it is noted that they go by the new limits, for
// nobody would move them then. A bucket that can't be asked is left to the next turn and added to faults; after a few the store is down, and the
// error joins them all.
func (s *Scheduler) reviseBuckets(ctx context.Context, buckets []string, faults *[]error) error {
	var mu sync.Mutex // guards faults and moves
	var moves []movement
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	var askers sync.WaitGroup
	for first := range min(reviseSide, len(buckets)) {
		askers.Go(func() {
			for i := first; i < len(buckets) && asking.Err() == nil; i += reviseSide {
				limit, key, _ := strings.Cut(buckets[i], ":")
				o, err := s.limiter.Revise(asking, limit, key)
				if reservations.IsPermanent(err) {
					continue // it is the bucket of a limit that is not ours to ask
				}
				mu.Lock()
				if err == nil {
					moves = append(moves, movementOf(buckets[i], o, time.Now()))
				} else if *faults = append(*faults, err); len(*faults) >= reviseFaults {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	askers.Wait()
	if asking.Err() != nil {
		return errors.Join(append(*faults, ctx.Err())...)
	}
	return s.moveLines(ctx, moves)
}

// moveLines moves lines at once.
func (s *Scheduler) moveLines(ctx context.Context, moves []movement) error {
	if len(moves) == 0 {
		return nil
	}
	s.Answered()
	first, earlier, err := s.lines.move(ctx, moves)
	if err == nil && earlier {
		s.waker.bring(first)
	}
	return err
}
