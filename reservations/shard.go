package reservations

import (
	"errors"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/bounded"
)

// shards is how many buckets hold one key: at least one.
func (l Limit) shards() int { return max(1, l.Shards) }

// forKey is the limit as it is for the bucket of key: meters with Spread get their Start from the bucket's name.
func (l Limit) forKey(key string) Limit {
	if !slices.ContainsFunc(l.Meters, func(m Meter) bool { return m.Spread }) {
		return l
	}
	l.Meters = slices.Clone(l.Meters)
	for k, m := range l.Meters {
		if m.Spread {
			h := fnv.New64a()
			_, _ = h.Write([]byte(bucket.Name(l.Name, key) + "/" + m.Name)) // a hash takes all
			ms := max(1, uint64(m.Period/time.Millisecond))                 //nolint:gosec // validated as positive
			start := time.Duration(h.Sum64()%ms) * time.Millisecond         //nolint:gosec // below the period
			l.Meters[k].Start, l.Meters[k].Spread = start, false
		}
	}
	return l
}

// shard is the limit of one shard as a store has to see it: an even part of each meter, under a name of its own. Shard
// zero is the limit itself.
func (l Limit) shard(i int) Limit {
	if i == 0 {
		return l
	}
	n := float64(l.shards())
	l.Name, l.Shards = BucketName{Limit: l.Name, Shard: i}.stored(), 0
	l.Meters = slices.Clone(l.Meters)
	for k, m := range l.Meters {
		m.Rate, m.Headroom = m.Rate/n, m.Headroom/n
		if m.Capacity != None {
			m.Capacity /= n
		}
		m.Adaptive.Max /= n
		if m.MaxReserved != None {
			m.MaxReserved /= n
		}
		l.Meters[k] = m
	}
	return l
}

func (l Limit) validateShards(fault func(field, format string, args ...any)) {
	if l.Shards < 0 || l.Shards > bucket.MaxShards {
		fault("shards", "%d must be between 1 and %d; zero means 1", l.Shards, bucket.MaxShards)
		return
	}
	if l.shards() == 1 {
		return
	}
	n := float64(l.Shards)
	for _, m := range l.Meters {
		switch {
		case m.inFlight():
			if m.Cap()/n != math.Trunc(m.Cap()/n) {
				fault("shards", "%d must divide the %v calls in flight evenly", l.Shards, m.Cap())
			}
		case !positive(m.Rate) || m.Period <= 0: // a fault of the meter
		case m.Cap()/n < 1:
			fault("shards", "capacity %v of %s in %d shards is %.3g each, too little to start anything",
				m.Cap(), m.Name, l.Shards, m.Cap()/n)
		case m.windowed() && m.Rate/n != float64(int64(m.Rate/n)):
			fault("shards", "%d must divide the rate %v of the window %s evenly: "+
				"a shard would lose a part of a token with each window", l.Shards, m.Rate, m.Name)
		}
	}
}

// ofBucket is the limit of one bucket, as the store has to see it.
type ofBucket struct {
	Limit

	at BucketName
}

// charge is the charge in this bucket, whichever shard it named.
func (b ofBucket) charge(c Charge) Charge {
	c.Shard = b.at.Shard
	return c
}

// buckets are the limits of all buckets that the limit has for the charge's key: one, or all shards, first that of the
// charge.
func (l Limit) buckets(c Charge) []ofBucket {
	l = l.forKey(c.Key)
	at := c.whole()
	if l.shards() == 1 {
		return []ofBucket{{l, at}}
	}
	all := make([]ofBucket, l.shards())
	for i := range all {
		at.Shard = (i+max(c.Shard, 1)-1)%len(all) + 1
		all[i] = ofBucket{l.shard(at.Shard), at}
	}
	return all
}

// sideBySide calls one for 0 to n-1 at the same time. The error joins all.
func sideBySide(n int, one func(i int) error) error {
	faults := make([]error, n)
	var calls sync.WaitGroup
	for i := range n {
		if i < n-1 {
			calls.Go(func() { faults[i] = one(i) })
		} else {
			faults[i] = one(i)
		}
	}
	calls.Wait()
	return errors.Join(faults...)
}

// Choose sets the shard of a charge that names none: the better of two, by the last answers. A charge of a limit
// without Shards is returned as it is. Ask and Reserve choose a shard themselves; call Choose where the name of the
// bucket is needed before.
func (b *buckets) Choose(c Charge) Charge {
	set, err := b.known(c)
	if err != nil || set == nil {
		return c
	}
	limit, err := set.For(c.Limit, c.Key)
	if err != nil {
		return c
	}
	return b.choose(limit, c)
}

// choose sets the shard of the charge where it names none, or one that the limit lacks: the better of two that are
// drawn.
func (b *buckets) choose(limit Limit, c Charge) Charge {
	switch n := limit.shards(); {
	case n == 1:
		c.Shard = 0
	case c.Shard < 1 || c.Shard > n:
		c.Shard = b.seen.pick(c.Bucket(), n, lasts(limit.shard(1).rules(), limit.rules().Vector(c.Tokens)))
	}
	return c
}

const (
	// seenKept is the longest time for which one request counts.
	seenKept = time.Minute
	// seenMost is how many shards a Limiter remembers.
	seenMost = 1 << 16
)

// shardAnswers remembers until when the shards of buckets are taken: by the last answer of each to a new task of this
// process, and by the requests sent since. Safe for concurrent use.
type shardAnswers struct {
	taken bounded.Map[BucketName, time.Time]
}

// pick draws two shards of n and returns the one that has room earlier. Until the answer is there that one counts as
// taken for so much longer: otherwise all requests before the answer would go there.
func (s *shardAnswers) pick(at BucketName, n int, longer time.Duration) int {
	a := rand.IntN(n)     //nolint:gosec // a choice needs no secrecy
	b := rand.IntN(n - 1) //nolint:gosec // as above
	if b >= a {
		b++
	}
	of := func(shard int) BucketName { return BucketName{Limit: at.Limit, Key: at.Key, Shard: shard} }
	a, b = a+1, b+1
	now := time.Now()
	if s.until(of(b), now).Before(s.until(of(a), now)) {
		a = b
	}
	s.taken.Change(of(a), func(until *time.Time) { *until = bucket.Later(*until, now).Add(longer) })
	return a
}

// until is when a new task could start there.
func (s *shardAnswers) until(shard BucketName, now time.Time) time.Time {
	return bucket.Later(s.taken.Get(shard), now)
}

// note remembers an answer of a shard: how long a new task waits there. It stands for the requests sent meanwhile, too.
func (s *shardAnswers) note(shard BucketName, wait time.Duration) {
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
