package waitlist

import (
	"context"
	"slices"
	"time"
)

// exactMost is the largest number of tasks ahead that are read one by one.
const exactMost = 100

// Position is the place of a task, for people.
type Position struct {
	Arrived

	// List is the waitlist of Arrived.Bucket. If the task is in no waitlist, only Now is set.
	List List
	// Tokens is the task's charge in the bucket. Since is when it was promoted.
	Tokens              map[string]float64
	Urgent, Reserved    bool
	Class, Tenant, Flow string
	Since               time.Time
	// Rank counts from 1, over all queues of the bucket, paused ones too. It is zero for a task that does not wait.
	// It is an estimate unless Exact.
	Rank int
	// TokensAhead is the sum of the charges of all tasks before this one, promoted tasks too. It is exact for at most
	// 100 tasks ahead. For more it is their number times the average charge of the list.
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

func (w *Waitlist) position(ctx context.Context, task Task, most int) (Position, error) {
	var answer struct {
		arrivedText

		List                listText
		Own                 headText
		Flow, Class, Tenant string
		Ahead, Rank         int
		Known               []string
		Waiting             waitingText
	}
	err := w.read(ctx, "look up the position of "+task.String(), w.scripts.position,
		args{"task": task.String(), "most": most}, &answer)
	if err != nil {
		return Position{}, err
	}
	p := Position{Arrived: answer.arrived(), List: answer.List.list()}
	if p.State == StateNew {
		return p, nil
	}
	own, err := answer.Own.head()
	if err != nil {
		return Position{}, err
	}
	p.Flow, p.Class, p.Tenant, p.Since = answer.Flow, answer.Class, answer.Tenant, own.Since
	p.Tokens, p.Urgent, p.Reserved = own.Tokens, own.Urgent, own.Reserved
	ahead, known := answer.Ahead, []map[string]float64{}
	for _, text := range answer.Known {
		known = append(known, tokens(text))
	}
	p.Exact = len(known) == ahead
	if p.State == StateWaiting {
		first := ordered(answer.Waiting.lanes())
		at := slices.IndexFunc(first, func(h head) bool { return h.Task == task })
		if p.Exact = p.Exact && at >= 0; at < 0 {
			at = estimated(first, answer.Rank, p.List.Waiting, func(h head) bool {
				return h.class == p.Class && h.tenant == p.Tenant
			})
		}
		p.Rank = at + 1
		if ahead += at; p.Exact {
			for _, h := range first[:at] {
				known = append(known, h.Tokens)
			}
		}
		p.Exact = p.Exact && ahead <= most
	}
	p.TokensAhead = p.List.ahead(known, ahead, p.Exact)
	return p, nil
}

// estimated is about how many tasks wait before one that is not among the first. Its rank in its tenant is known.
// It is taken to have others before it as they are among the first.
func estimated(first []head, rank, all int, own func(head) bool) (before int) {
	same := 0
	for _, h := range first {
		if own(h) {
			same++
		}
	}
	return min((rank+1)*len(first)/max(same, 1), all) - 1
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
