package simulate

import (
	"container/heap"
	"time"

	"github.com/headway-go/headway/internal/class"
)

// place is where a call stands in the waitlist of a bucket. It keeps its tag until it starts.
type place struct {
	tag   float64
	cost  float64 // of the turn of its class; zero after its first promotion
	class string
}

// entry is a call in a list.
type entry struct {
	call  *running
	place place
	order int // of arrival in the list: equal tags are first come, first served
}

// list is a heap of the waiting calls of one class, by tag.
type list []entry

func (l list) Len() int { return len(l) }
func (l list) Less(i, j int) bool {
	return l[i].place.tag < l[j].place.tag || l[i].place.tag == l[j].place.tag && l[i].order < l[j].order
}
func (l list) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *list) Push(x any) { *l = append(*l, x.(entry)) } //nolint:forcetypeassert // the heap of entries

// Pop implements heap.Interface.
func (l *list) Pop() any {
	last := len(*l) - 1
	e := (*l)[last]
	(*l)[last] = entry{}
	*l = (*l)[:last]
	return e
}

// part is one class of a waitlist.
type part struct {
	name  string
	list  list
	inner float64            // the largest promoted tag
	outer float64            // the end of the last turn
	flows map[string]float64 // the ends of the flows that have not been reached
	// busy says that a call got its tag since the bucket was idle: since when, and the smallest tag then.
	busy    bool
	since   time.Duration
	busyTag float64
}

// line is the waitlist of one bucket: see docs/architecture.md. Its classes are in the order of their first call.
type line struct {
	classes []*part
	virtual float64 // the latest start of a turn
	waiting int
	joined  int
	heads   []class.Head // reused
	of      []int        // the classes of heads
}

// open returns a class that is about to get a call.
func (l *line) open(name string, now time.Duration) *part {
	var found *part
	for _, c := range l.classes {
		if c.name == name {
			found = c
		}
	}
	if found == nil {
		found = &part{name: name, flows: map[string]float64{}}
		l.classes = append(l.classes, found)
	}
	if !found.busy {
		found.busy, found.since, found.busyTag = true, now, found.inner
	}
	return found
}

// behind returns a tag at the end of a flow, and moves this end on by the cost. A call that arrived before the class
// was busy is before all later ones.
func (c *part) behind(flow string, cost float64, arrived time.Duration) float64 {
	tag := max(c.inner, c.flows[flow])
	c.flows[flow] = tag + cost
	if early := c.since - arrived; early > 0 {
		return c.busyTag - early.Seconds()
	}
	return tag
}

// frontBefore is how long before all arrivals a refused call counts as one.
const frontBefore = 100_000 * time.Second

// front returns a tag before the ones of all arrivals. Of two refused calls the one that was refused first is first.
func (c *part) front(now time.Duration) float64 {
	return c.busyTag - (c.since - now + frontBefore).Seconds()
}

// join adds a call at a place.
func (l *line) join(r *running, p place, now time.Duration) {
	c := l.open(p.class, now)
	l.joined++
	l.waiting++
	heap.Push(&c.list, entry{call: r, place: p, order: l.joined})
}

// head returns the call that starts next and its class; nil if none waits.
func (l *line) head() (*part, *entry) {
	l.heads, l.of = l.heads[:0], l.of[:0]
	for i, c := range l.classes {
		if len(c.list) > 0 {
			l.heads = append(l.heads, class.Head{Class: c.name, Ends: c.outer, Turn: c.list[0].place.cost})
			l.of = append(l.of, i)
		}
	}
	i := class.Next(l.virtual, l.heads)
	if i < 0 {
		return nil, nil
	}
	c := l.classes[l.of[i]]
	return c, &c.list[0]
}

// promote takes the head of a class out of its list. The returned place has had its turn.
func (l *line) promote(c *part) (*running, place) {
	e := heap.Pop(&c.list).(entry) //nolint:forcetypeassert // as above
	l.waiting--
	c.inner = max(c.inner, e.place.tag)
	if e.place.cost > 0 {
		l.virtual = max(l.virtual, c.outer)
		c.outer = l.virtual + e.place.cost
		e.place.cost = 0
	}
	if len(c.flows) > flowsKept {
		for flow, ends := range c.flows {
			if ends <= c.inner {
				delete(c.flows, flow)
			}
		}
	}
	return e.call, e.place
}

// flowsKept is for how many flows the ends are kept before the ones are dropped that have been reached. That changes no
// tag.
const flowsKept = 1000

// idle is called when no call waits or is promoted: later calls get larger tags than all earlier ones.
func (l *line) idle() {
	for _, c := range l.classes {
		for _, ends := range c.flows {
			c.inner = max(c.inner, ends)
		}
		clear(c.flows)
		c.outer, c.busy = 0, false
	}
	l.virtual = 0
}
