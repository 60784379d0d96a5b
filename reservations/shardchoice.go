package reservations

import (
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/bucket"
)

const (
	// seenKept is the longest time for which one request counts.
	seenKept = time.Minute
	// seenMost is how many shards a Limiter remembers.
	seenMost = 1 << 16
)

// shardAnswers remembers until when the shards of buckets are taken: by the last answer of each to a new task of this
// process, and by the requests sent since. Safe for concurrent use.
type shardAnswers struct {
	taken bounded.Map[bucketKey, time.Time]
}

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
	now := time.Now()
	if s.until(of(b), now).Before(s.until(of(a), now)) {
		a = b
	}
	s.taken.Change(of(a), func(until *time.Time) { *until = bucket.Later(*until, now).Add(longer) })
	return a
}

// until is when a new task could start there.
func (s *shardAnswers) until(shard bucketKey, now time.Time) time.Time {
	return bucket.Later(s.taken.Get(shard), now)
}

// note remembers an answer of a shard: how long a new task waits there. The requests sent since the one that is answered
// are forgotten, because the order of their answers is not known.
func (s *shardAnswers) note(shard bucketKey, wait time.Duration) {
	s.taken.Change(shard, func(until *time.Time) { *until = time.Now().Add(wait) })
}

// lasts is how long a shard of the limit is taken by a charge of n, at most seenKept.
func lasts(l bucket.Limit, n []float64) time.Duration {
	return time.Duration(min(l.Seconds(n), seenKept.Seconds()) * float64(time.Second))
}

// newcomer says whether the request is that of a new task. Only its answer says how long other new tasks would wait.
func newcomer(r bucket.Request) bool {
	return r.Op == bucket.OpStart && !r.Promoted || r.Op == bucket.OpReserve || r.Op == bucket.OpAllow
}
