package reservations

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	// seenMost is how many sharded buckets a process remembers answers of.
	seenMost = 4096
	// seenKept is how long after its moment an answer is remembered.
	seenKept = time.Minute
)

// shardAnswers remembers until when the shards of buckets are taken: by the last answer to a newcomer of each that this process has seen, and by what
// it has sent there since. It holds a bounded number of buckets. Safe for concurrent use.
type shardAnswers struct {
	mu    sync.Mutex // guards what is below
	taken map[string]map[int]shardLoad
}

// shardLoad is until when a shard is taken by the last answer, and for how much longer by what was sent there and is not answered yet.
type shardLoad struct {
	until time.Time
	sent  time.Duration
	open  int // how many were sent and are not answered yet
}

// wait is how long a newcomer would wait there.
func (s shardLoad) wait(now time.Time) time.Duration { return max(0, s.until.Sub(now)) + s.sent }

// pick draws two shards of n and returns the one that has room earlier. Until an answer tells, that one is taken for so much longer: else all who ask
// before it comes would go there.
func (s *shardAnswers) pick(bucket string, n int, longer time.Duration) int {
	a := rand.IntN(n)     //nolint:gosec // a choice needs no secrecy
	b := rand.IntN(n - 1) //nolint:gosec // as above
	if b >= a {
		b++
	}
	a, b = a+1, b+1
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.of(bucket, now)
	if taken[b].wait(now) < taken[a].wait(now) {
		a = b
	}
	taken[a] = shardLoad{until: taken[a].until, sent: taken[a].sent + longer, open: taken[a].open + 1}
	return a
}

// note remembers an answer of a shard: how long the newcomer waits there that was sent for so long. No answer is a negative wait.
func (s *shardAnswers) note(shardLimit, key string, shard int, sent, wait time.Duration) {
	name, _, _ := strings.Cut(shardLimit, "#")
	bucket, now := BucketName(name, key), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.of(bucket, now)
	load := taken[shard]
	load.sent, load.open = max(0, load.sent-sent), max(0, load.open-1)
	if load.open == 0 { // what is left is from a limit that was another when it was sent
		load.sent = 0
	}
	if wait >= 0 {
		load.until = now.Add(wait)
	}
	taken[shard] = load
}

// of is what is known of a bucket, after making room for it. It requires that mu is held.
func (s *shardAnswers) of(bucket string, now time.Time) map[int]shardLoad {
	if s.taken[bucket] == nil {
		if len(s.taken) >= seenMost {
			s.forget(now)
		}
		if s.taken == nil {
			s.taken = map[string]map[int]shardLoad{}
		}
		s.taken[bucket] = map[int]shardLoad{}
	}
	return s.taken[bucket]
}

// lasts is how long a bucket of the limit is taken by a charge: until all of it has come back.
func (l Limit) lasts(tokens []float64) time.Duration {
	return time.Duration(min(l.comesBack(tokens), seenKept.Seconds()) * float64(time.Second))
}

// comesBack is how many seconds it takes until the tokens have come back.
func (l Limit) comesBack(tokens []float64) float64 {
	longest := 0.
	for k, m := range l.Meters {
		longest = max(longest, tokens[k]/m.RatePerSecond())
	}
	return longest
}

// newcomer says whether the request is that of a new task: only its answer says how long other new tasks would wait.
func (r Request) newcomer() bool {
	return r.Op == OpStart && !r.Promoted || r.Op == OpReserve || r.Op == OpAllow
}

// forget makes room: of buckets whose answers are all old, or else of all. It requires that mu is held.
func (s *shardAnswers) forget(now time.Time) {
	for bucket, shards := range s.taken {
		old := true
		for _, load := range shards {
			old = old && now.Sub(load.until) > seenKept
		}
		if old {
			delete(s.taken, bucket)
		}
	}
	if len(s.taken) >= seenMost {
		clear(s.taken)
	}
}
