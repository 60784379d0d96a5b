package waitlist

import (
	"context"
	"slices"
	"time"
)

// exactMost is the largest number of tasks ahead that are read one by one.
const exactMost = 500

// Position is the place of a task, for people.
type Position struct {
	Arrived

	// List is the waitlist of Arrived.Bucket. If the task is in no waitlist, only Now is set.
	List List
	// Tag is the task's place in the order of its bucket. Tokens is its charge there. Since is when it was promoted.
	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	Flow, Class      string
	Since            time.Time
	// Rank counts from 1, over all queues of the bucket, paused ones too. It is zero for a task that does not wait.
	// In a bucket with several classes it is an estimate unless Exact.
	Rank int
	// TokensAhead is the sum of the charges of all tasks before this one, promoted tasks too. It is exact for at most
	// 500 tasks ahead. For more it is their number times the average charge of the list.
	TokensAhead map[string]float64
	Exact       bool
}

// Position returns the place of the task. It changes nothing and never reads the whole list.
func (w *Waitlist) Position(ctx context.Context, task Task) (Position, error) {
	return w.position(ctx, task, exactMost)
}

// nearMost is the largest number of tasks ahead that Near reads one by one.
const nearMost = 32

// Near is Position for a process that asks for many tasks: it is exact for at most 32 tasks ahead.
func (w *Waitlist) Near(ctx context.Context, task Task) (Position, error) {
	return w.position(ctx, task, nearMost)
}

func (w *Waitlist) position(ctx context.Context, task Task, exact int) (Position, error) {
	r := w.run(ctx, "look up the position of "+task.String(), w.scripts.position, task.String(), exact)
	p := Position{Arrived: r.arrived()}
	if p.List = r.list(p.Bucket); p.State == StateNew {
		return p, r.err
	}
	p.Flow, p.Class, p.Since = r.text(), r.text(), r.moment()
	ahead, known := r.count(), []map[string]float64{}
	for range r.count() {
		known = append(known, r.tokens())
	}
	inClass, virtual, lanes := r.count(), r.float(), r.lanes()
	own, _ := r.head(p.Class)
	p.Tag, p.Tokens, p.Urgent, p.Reserved = own.Tag, own.Tokens, own.Urgent, own.Reserved
	p.Exact = len(known) == ahead
	if p.State == StateWaiting {
		first, _ := ordered(virtual, lanes, exact+1)
		before, found := rank(first, own, inClass, p.List.Waiting)
		p.Rank = before + 1
		if ahead += before; found {
			for _, h := range first[:before] {
				known = append(known, h.Tokens)
			}
		}
		p.Exact = p.Exact && found && ahead <= exact
	}
	p.TokensAhead = p.List.ahead(known, ahead, p.Exact)
	return p, r.err
}

// rank is how many tasks wait before this one. Of one that is not among the first, the rank in its class is known. It
// is taken to have other classes before it as they are among the first.
func rank(first []head, own head, inClass, all int) (before int, found bool) {
	if i := slices.IndexFunc(first, func(h head) bool { return h.Task == own.Task }); i >= 0 {
		return i, true
	}
	same := 0
	for _, h := range first {
		if h.class == own.class {
			same++
		}
	}
	return min(inClass*len(first)/max(same, 1), all) - 1, false
}

// ahead is the sum of charges, or if they are not known, the part of all charges that n tasks have.
func (l List) ahead(known []map[string]float64, n int, exact bool) map[string]float64 {
	sums := map[string]float64{}
	if exact {
		for _, tokens := range known {
			for meter, n := range tokens {
				sums[meter] += n
			}
		}
		return sums
	}
	for meter, sum := range l.Tokens {
		sums[meter] = sum / float64(l.Waiting+l.Promoted) * float64(n)
	}
	return sums
}
