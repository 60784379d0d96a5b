package dispatcher

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
)

const (
	// lookEvery is the shortest time between two looks at one waitlist: tasks that may start before the next look are
	// promoted now.
	lookEvery = 40 * time.Millisecond
	// probeEvery is how often a task is promoted to find out whether its bucket answers, where nothing is known of it.
	probeEvery = time.Second
	// pausedEvery is how often a waitlist is looked at whose tasks are all of paused queues.
	pausedEvery = time.Second
)

// plan decides which tasks of a waitlist are promoted, and when to look again. It is pure.
//
// The bucket's last answer is filled up to now. The tasks that were promoted and have not begun are planned first,
// then the heads of the list, in order. A task is promoted if it can start before the next look, plus what a delivery
// takes. The first one that is later says when to look again; where all can start and others wait behind them, that is
// at once. Nothing is promised: a promoted task asks its bucket.
func plan(due waitlist.Due, now time.Time, delivery time.Duration) (waitlist.Plan, error) {
	p := waitlist.Plan{Bucket: due.Bucket, Planned: due.Planned}
	if len(due.Heads) == 0 {
		if due.More {
			p.Next = lookEvery
		}
		return p, nil
	}
	if due.PromotedCount > promotedMost { // more than are known: some have to begin first
		p.Next = lookEvery
		return p, nil
	}
	if due.Failed || len(due.State) == 0 {
		return probe(p, due), nil
	}
	var b bucket.Bucket
	if err := json.Unmarshal(due.State, &b); err != nil {
		return probe(p, due), fmt.Errorf("read the state of bucket %s: %w", due.Bucket, err)
	}
	now = now.Add(due.Offset)
	until := now.Add(lookEvery + delivery)
	asks := make([]bucket.Ask, 0, len(due.Promoted)+len(due.Heads))
	for _, tasks := range [][]waitlist.Waiting{due.Promoted, due.Heads} {
		for _, t := range tasks {
			asks = append(asks, bucket.Ask{Tokens: t.Tokens, Urgent: t.Urgent})
		}
	}
	starts := b.Plan(now, asks, until)
	if p.Next = lookEvery; due.More {
		p.Next = dispatcherPause
	}
	for i, at := range starts {
		if at.After(until) {
			p.Next = max(lookEvery, at.Sub(now)-delivery)
			break
		}
		if i >= len(due.Promoted) {
			p.Promote = append(p.Promote, due.Heads[i-len(due.Promoted)].Task)
		}
	}
	return p, nil
}

// probe promotes one task, unless one is on its way, to find out whether its bucket answers.
func probe(p waitlist.Plan, due waitlist.Due) waitlist.Plan {
	p.Next = probeEvery
	if due.PromotedCount == 0 {
		p.Promote = []waitlist.Task{due.Heads[0].Task}
	}
	return p
}
