package reservations

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// maxCombined is the largest number of requests that share one round trip.
const maxCombined = 128

// gatherMost bounds how long a call waits for others to come along.
const gatherMost = 5 * time.Millisecond

// combiner lets callers that wait in this process for the same bucket share a round trip: while one call is under way, the
// requests that arrive gather, and the next call takes them all along, in order. A lone caller waits for nobody. When a limit
// changes, those who gathered before are asked for by the old one, in a call of their own.
type combiner struct {
	store   Store
	timeout time.Duration // of one call to the store

	mu      sync.Mutex // guards waiting; never held while the store is asked
	waiting map[string]*gathering
}

// gathering is who waits for the next call for a bucket. It is in combiner.waiting while a call for it is under way.
type gathering struct {
	askers []*asker
	want   int           // how many are enough for the next call; zero while nobody waits for them
	enough chan struct{} // closed when so many are there
}

// asker is one caller that waits for its answer.
type asker struct {
	ctx     context.Context //nolint:containedctx // lives only as long as the call that carries it
	limit   Limit           // by which the request was made; its tokens are in the order of the limit's meters
	request Request
	answer  chan answer // holds one
}

type answer struct {
	outcome Outcome
	err     error
}

func newCombiner(store Store, timeout time.Duration) *combiner {
	return &combiner{store: store, timeout: timeout, waiting: map[string]*gathering{}}
}

// apply asks for requests that stand side by side in one call. When ctx ends before the answer, the requests may still be
// applied without their caller.
func (c *combiner) apply(ctx context.Context, limit Limit, key string, requests ...Request) ([]Outcome, error) {
	bucket := BucketName(limit.Name, key)
	askers := make([]*asker, len(requests))
	for i, r := range requests {
		askers[i] = &asker{ctx: ctx, limit: limit, request: r, answer: make(chan answer, 1)}
	}
	c.mu.Lock()
	g, busy := c.waiting[bucket]
	if !busy {
		g = &gathering{}
		c.waiting[bucket] = g
	}
	g.add(askers)
	c.mu.Unlock()
	if !busy {
		go c.serve(key, bucket) //nolint:contextcheck // each call takes its context from the askers it carries
	}
	outcomes := make([]Outcome, len(requests))
	for i, a := range askers {
		select {
		case got := <-a.answer:
			if got.err != nil {
				return nil, got.err
			}
			outcomes[i] = got.outcome
		case <-ctx.Done():
			return nil, &UnavailableError{Bucket: bucket, Applied: AppliedMaybe, Err: ctx.Err()}
		}
	}
	return outcomes, nil
}

// add takes more askers in. The combiner's mutex is held.
func (g *gathering) add(askers []*asker) {
	g.askers = append(g.askers, askers...)
	if g.want > 0 && len(g.askers) >= g.want {
		close(g.enough)
		g.want = 0
	}
}

// serve asks the store for whatever has gathered until nothing is left.
func (c *combiner) serve(key, bucket string) {
	for {
		batch := c.take(bucket)
		if batch == nil {
			return
		}
		start := time.Now()
		c.call(batch[0].limit, key, batch)
		if n := len(batch); n > 1 {
			c.gather(bucket, n, min(time.Since(start), gatherMost))
		}
	}
}

// gather waits for at most so long until n callers are there, the number of the last call: who was answered and
// asks again, or lets somebody else ask, comes along with the next call. So where many ask, most calls are full, and a lone caller waits for nobody.
func (c *combiner) gather(bucket string, n int, most time.Duration) {
	runtime.Gosched()
	c.mu.Lock()
	g := c.waiting[bucket]
	if len(g.askers) >= n {
		c.mu.Unlock()
		return
	}
	enough := make(chan struct{})
	g.want, g.enough = n, enough
	c.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-enough:
	case <-timer.C:
		c.mu.Lock()
		g.want = 0
		c.mu.Unlock()
	}
}

// take returns what has gathered for one limit, less those whose callers have gone. Nil ends the service of the bucket.
func (c *combiner) take(bucket string) []*asker {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.waiting[bucket]
	gathered := slices.DeleteFunc(g.askers, func(a *asker) bool { return a.ctx.Err() != nil })
	if len(gathered) == 0 {
		delete(c.waiting, bucket)
		return nil
	}
	n := 1
	for n < min(len(gathered), maxCombined) && gathered[n].limit.equal(gathered[0].limit) {
		n++
	}
	g.askers = gathered[n:]
	inTurn(gathered[:n])
	return gathered[:n:n]
}

// inTurn has tasks that come at their time be asked for in the order of their times: those that were woken together come in any.
func inTurn(batch []*asker) {
	var at []int
	var timely []*asker
	for i, a := range batch {
		if a.request.Op == OpBegin && a.request.State == StateReserved {
			at, timely = append(at, i), append(timely, a)
		}
	}
	slices.SortStableFunc(timely, func(a, b *asker) int { return a.request.Due.Compare(b.request.Due) })
	for k, i := range at {
		batch[i] = timely[k]
	}
}

// call makes one round trip for the batch and answers everybody in it. The first caller lends its context's values.
func (c *combiner) call(limit Limit, key string, batch []*asker) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), c.timeout)
	defer cancel()
	requests := make([]Request, len(batch))
	for i, a := range batch {
		requests[i] = a.request
	}
	outcomes, err := c.store.Apply(ctx, limit, key, requests)
	for i, a := range batch {
		if err != nil {
			a.answer <- answer{err: err}
			continue
		}
		a.answer <- answer{outcome: outcomes[i]}
	}
}
