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

// shardAnswers remembers until when the shards of buckets are taken, by the last answer of each that this process has seen. It holds a
// bounded number of buckets. Safe for concurrent use.
type shardAnswers struct {
	mu    sync.Mutex // guards what is below
	taken map[string]map[int]time.Time
}

// asksForPlace says whether the answer tells how long whoever asks has to wait. The others are always answered at once.
func (o Op) asksForPlace() bool { return o == OpBegin || o == OpReserve || o == OpTake || o == OpCheck }

// pick draws two shards of n and returns the one that has room earlier.
func (s *shardAnswers) pick(bucket string, n int) int {
	a := rand.IntN(n)     //nolint:gosec // a choice needs no secrecy
	b := rand.IntN(n - 1) //nolint:gosec // as above
	if b >= a {
		b++
	}
	a, b = a+1, b+1
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken[bucket]
	if max(0, taken[b].Sub(now)) < max(0, taken[a].Sub(now)) {
		return b
	}
	return a
}

// note remembers an answer of a shard: how long a newcomer would wait there.
func (s *shardAnswers) note(shardLimit, key string, shard int, wait time.Duration) {
	name, _, _ := strings.Cut(shardLimit, "#")
	bucket, now := BucketName(name, key), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[bucket] == nil {
		if len(s.taken) >= seenMost {
			s.forget(now)
		}
		if s.taken == nil {
			s.taken = map[string]map[int]time.Time{}
		}
		s.taken[bucket] = map[int]time.Time{}
	}
	s.taken[bucket][shard] = now.Add(wait)
}

// forget makes room: of buckets whose answers are all old, or else of all. It requires that mu is held.
func (s *shardAnswers) forget(now time.Time) {
	for bucket, shards := range s.taken {
		old := true
		for _, until := range shards {
			old = old && now.Sub(until) > seenKept
		}
		if old {
			delete(s.taken, bucket)
		}
	}
	if len(s.taken) >= seenMost {
		clear(s.taken)
	}
}
