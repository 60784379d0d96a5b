package simulate

import (
	"container/heap"
	"time"
)

// kind is what happens to the call of an event.
type kind int

const (
	eventHeld  kind = iota // the hold of a start is over
	eventEnded             // the call has its answer
	eventAgain             // a refused call that waited alone asks again
)

// event is something that happens later: to a call, or a look at a bucket.
type event struct {
	at      time.Duration
	order   int
	kind    kind
	call    *running
	box     *box // that is looked at, if it is still planned
	planned int
}

// events is a heap by time. Of equal times the first one that was pushed is first, so results can be repeated.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) } //nolint:forcetypeassert // the heap of events

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func (f *fleet) push(e event) {
	f.pushed++
	e.order = f.pushed
	heap.Push(&f.events, e)
}
