package reservations

import (
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/bucket"
)

const (
	// seenKept is the longest time for which a request that is not answered yet counts.
	seenKept = time.Minute
	// seenMost is how many shards a Limiter remembers.
	seenMost = 1 << 16
)

// shardAnswers remembers until when the shards of buckets are taken: by the last answer of each to a new task of this
// process, and by the requests sent since. Safe for concurrent use.
type shardAnswers struct {
	taken bounded.Map[bucketKey, shardLoad]
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
func (s *shardAnswers) pick(limit, key string, n int, longer time.Duration) int {
	a := rand.IntN(n)     //nolint:gosec // a choice needs no secrecy
	b := rand.IntN(n - 1) //nolint:gosec // as above
	if b >= a {
		b++
	}
	of := func(shard int) bucketKey { return bucketKey{limit: shardName(limit, shard), key: key} }
	a, b = a+1, b+1
	if now := time.Now(); s.taken.Get(of(b)).wait(now) < s.taken.Get(of(a)).wait(now) {
		a = b
	}
	s.taken.Change(of(a), func(load *shardLoad) { load.sent, load.open = load.sent+longer, load.open+1 })
	return a
}

// note remembers an answer of a shard: how long a new task waits there. Sent is what pick was given; a negative wait is
// no answer.
func (s *shardAnswers) note(shard bucketKey, sent, wait time.Duration) {
	s.taken.Change(shard, func(load *shardLoad) {
		load.sent, load.open = max(0, load.sent-sent), max(0, load.open-1)
		if load.open == 0 { // a rest is from a limit that changed meanwhile
			load.sent = 0
		}
		if wait >= 0 {
			load.until = time.Now().Add(wait)
		}
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
