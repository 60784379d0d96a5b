package reservations

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/bucket"
)

const (
	// seenKept is the longest time for which a request that is not answered yet counts.
	seenKept = time.Minute
)

// shardAnswers remembers until when the shards of buckets are taken: by the last answer of each to a new task of this
// process, and by the requests sent since. Safe for concurrent use.
type shardAnswers struct {
	taken bounded.Map[string, map[int]shardLoad]
}

// shardLoad is until when a shard is taken by the last answer, and for how much longer by requests that are not
// answered yet.
type shardLoad struct {
	until time.Time
	sent  time.Duration
	open  int // requests that are not answered yet
}

// wait is how long a new task would wait there.
func (s shardLoad) wait(now time.Time) time.Duration { return max(0, s.until.Sub(now)) + s.sent }

// pick draws two shards of n and returns the one that has room earlier. Until the answer is there that one counts as
// taken for so much longer: otherwise all requests before the answer would go there.
func (s *shardAnswers) pick(bucket string, n int, longer time.Duration) int {
	a := rand.IntN(n)     //nolint:gosec // a choice needs no secrecy
	b := rand.IntN(n - 1) //nolint:gosec // as above
	if b >= a {
		b++
	}
	a, b = a+1, b+1
	now := time.Now()
	s.change(bucket, func(taken map[int]shardLoad) {
		if taken[b].wait(now) < taken[a].wait(now) {
			a = b
		}
		taken[a] = shardLoad{until: taken[a].until, sent: taken[a].sent + longer, open: taken[a].open + 1}
	})
	return a
}

func (s *shardAnswers) change(bucket string, by func(taken map[int]shardLoad)) {
	s.taken.Change(bucket, func(taken *map[int]shardLoad) {
		if *taken == nil {
			*taken = map[int]shardLoad{}
		}
		by(*taken)
	})
}

// note remembers an answer of a shard: how long a new task waits there. Sent is what pick was given; a negative wait is
// no answer.
func (s *shardAnswers) note(shardLimit, key string, shard int, sent, wait time.Duration) {
	name, _, _ := strings.Cut(shardLimit, "#")
	s.change(bucket.Name(name, key), func(taken map[int]shardLoad) {
		load := taken[shard]
		load.sent, load.open = max(0, load.sent-sent), max(0, load.open-1)
		if load.open == 0 { // a rest is from a limit that changed meanwhile
			load.sent = 0
		}
		if wait >= 0 {
			load.until = time.Now().Add(wait)
		}
		taken[shard] = load
	})
}

// lasts is how long a shard of the limit is taken by a charge of n, at most seenKept.
func lasts(l bucket.Limit, n []float64) time.Duration {
	return time.Duration(min(l.Seconds(n), seenKept.Seconds()) * float64(time.Second))
}

// newcomer says whether the request is that of a new task. Only its answer says how long other new tasks would wait.
func newcomer(r bucket.Request) bool {
	return r.Op == bucket.OpStart && !r.Promoted || r.Op == bucket.OpReserve || r.Op == bucket.OpAllow
}
