package simulate

import (
	"container/heap"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/line/class"
)

// place is where a call stands in the waitlist of a bucket.
type place struct {
	class.Turns

	tag float64
	// back is the number of its first promotion. Zero means that it waits for its turn.
	back int
}

// entry is a call in a list.
type entry struct {
	call  *running
	place place
	order int // of arrival in the list: equal tags are first come, first served
}

// list is a heap of waiting calls: by tag, or the ones that come back by their first promotions.
type list []entry

func (l list) Len() int { return len(l) }
func (l list) Less(i, j int) bool {
	a, b := l[i], l[j]
	if a.place.back != b.place.back {
		return a.place.back < b.place.back
	}
	return a.place.tag < b.place.tag || a.place.tag == b.place.tag && a.order < b.order
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

// line is the waitlist of one bucket: see docs/waitlist.md. Its classes are in the order of their first call.
type line struct {
	back     list // calls that have had their turns
	classes  []*ofClass
	waiting  []*ofClass // classes of which calls wait for their turns
	virtual  float64    // the latest beginning of a turn
	count    int        // of waiting calls
	joined   int
	promoted int
}

// ofClass is one class of a waitlist. Its Member says where its last turn ended.
type ofClass struct {
	class.Member

	tenants map[string]*ofTenant
	waiting []*ofTenant // of which calls wait for their turns
	virtual float64     // the latest beginning of a turn of its tenants
}

// ofTenant is one tenant of a class.
type ofTenant struct {
	class.Member

	list  list
	tag   float64            // the largest promoted one
	flows map[string]float64 // the ends of the flows that have not been reached
	// Since is when the first of the calls that wait got its tag, and first that tag.
	since time.Duration
	first float64
}

// open returns the class and the tenant of a call that is about to wait.
func (l *line) open(p place, now time.Duration) (*ofClass, *ofTenant) {
	at := slices.IndexFunc(l.classes, func(c *ofClass) bool { return c.Name == p.Class })
	if at < 0 {
		at = len(l.classes)
		l.classes = append(l.classes, &ofClass{Member: class.Member{Name: p.Class}, tenants: map[string]*ofTenant{}})
	}
	c := l.classes[at]
	t := c.tenants[p.Tenant]
	if t == nil {
		t = &ofTenant{Member: class.Member{Name: p.Tenant}, flows: map[string]float64{}}
		c.tenants[p.Tenant] = t
	}
	if len(t.list) == 0 {
		t.since, t.first = now, t.tag
	}
	return c, t
}

// behind returns the place of a new call at the end of its flow, and moves this end on. A call that arrived before the
// ones of its tenant that wait is before them.
func (l *line) behind(turns class.Turns, arrived, now time.Duration) place {
	p := place{Turns: turns}
	_, t := l.open(p, now)
	p.tag = max(t.tag, t.flows[p.Flow])
	t.flows[p.Flow] = p.tag + p.Cost
	if early := t.since - arrived; early > 0 {
		p.tag = t.first - early.Seconds()
	}
	return p
}

// frontBefore is how many promotions before all others a refused call counts as one.
const frontBefore = 1 << 40

// front returns a place before all calls that were promoted.
func (l *line) front(turns class.Turns) place {
	l.promoted++
	return place{Turns: turns, back: l.promoted - frontBefore}
}

// join adds a call at a place.
func (l *line) join(r *running, p place, now time.Duration) {
	l.joined++
	l.count++
	e := entry{call: r, place: p, order: l.joined}
	if p.back != 0 {
		heap.Push(&l.back, e)
		return
	}
	c, t := l.open(p, now)
	if len(c.waiting) == 0 {
		l.waiting = append(l.waiting, c)
	}
	if len(t.list) == 0 {
		c.waiting = append(c.waiting, t)
	}
	heap.Push(&t.list, e)
}

// next returns the class and the tenant whose turn is next.
func (l *line) next() (*ofClass, *ofTenant) {
	i := class.Next(l.virtual, len(l.waiting), func(i int) class.Member { return l.waiting[i].Member })
	if i < 0 {
		return nil, nil
	}
	c := l.waiting[i]
	return c, c.waiting[class.Next(c.virtual, len(c.waiting), func(i int) class.Member { return c.waiting[i].Member })]
}

// head returns the call that starts next; nil if none waits.
func (l *line) head() *entry {
	if len(l.back) > 0 {
		return &l.back[0]
	}
	if _, t := l.next(); t != nil {
		return &t.list[0]
	}
	return nil
}

// promote takes the head out of its list. The returned place has had its turn.
func (l *line) promote() (*running, place) {
	l.count--
	l.promoted++
	if len(l.back) > 0 {
		e := heap.Pop(&l.back).(entry) //nolint:forcetypeassert // as above
		return e.call, e.place
	}
	c, t := l.next()
	e := heap.Pop(&t.list).(entry) //nolint:forcetypeassert // as above
	e.place.back = l.promoted
	l.virtual = max(l.virtual, c.Begins)
	c.Begins = l.virtual + e.place.Turn
	c.virtual = max(c.virtual, t.Begins)
	t.Begins = c.virtual + e.place.Part
	t.tag = max(t.tag, e.place.tag)
	switch {
	case len(t.list) == 0:
		t.tag = 0
		clear(t.flows)
		c.waiting = slices.DeleteFunc(c.waiting, func(other *ofTenant) bool { return other == t })
	case len(t.flows) > flowsKept:
		for flow, ends := range t.flows {
			if ends <= t.tag {
				delete(t.flows, flow)
			}
		}
	}
	if len(c.waiting) == 0 {
		l.waiting = slices.DeleteFunc(l.waiting, func(other *ofClass) bool { return other == c })
	}
	return e.call, e.place
}

// flowsKept is for how many flows the ends are kept before the ones are dropped that have been reached. That changes no
// tag.
const flowsKept = 1000

// idle is called when no call waits or is promoted: all turns are forgotten.
func (l *line) idle() {
	for _, c := range l.classes {
		c.Begins, c.virtual = 0, 0
		clear(c.tenants)
	}
	l.virtual = 0
}
