package waitlist

import (
	"cmp"
	"math"
	"slices"

	"github.com/headway-go/headway/internal/line/class"
)

// lane is one list of a bucket: the waiting tasks of one tenant in one queue and class, in order of their tags, or the
// tasks of one queue that come back.
type lane struct {
	back          bool
	class, tenant string
	// Ends is where the last turn of the class ended.
	ends float64
	// Begins is where the next turn of the tenant begins, virtual the latest beginning of one in the class.
	begins, virtual float64
	// Count is the number of its tasks. Heads are its first ones.
	count int
	heads []head
}

// head is a task at the head of a lane.
type head struct {
	Waiting

	class, tenant string
	flow          string // only where people look
	tag           float64
	back          micros // when it was promoted first
	// turn and part are how long the turns of its class and its tenant are.
	turn, part float64
}

// ordered are the heads of the lanes in the order in which their tasks start, as far as they are known.
//
//  1. Tasks that come back are first, in the order of their first promotions.
//  2. Of the classes, the one whose turn begins first is next (class.Next).
//  3. In the class, the tenant whose turn begins first is next.
//  4. Of the tenant, the task with the smallest tag is next: it is behind its flow. Of equal ones the first queue by
//     name is first.
//
// Virtual is the latest beginning of a turn of a class. The order ends where a lane has more tasks than are known.
func ordered(virtual float64, lanes []lane) (first []head) {
	known := micros(math.MaxInt64) // of the tasks that come back: until when all are known
	var classes []*ofClass
	for i := range lanes {
		switch l := &lanes[i]; {
		case len(l.heads) == 0:
		case !l.back:
			classes = addTo(classes, l, virtual)
		default:
			if first = append(first, l.heads...); l.count > len(l.heads) {
				known = min(known, l.heads[len(l.heads)-1].back)
			}
		}
	}
	slices.SortStableFunc(first, func(a, b head) int {
		return cmp.Or(cmp.Compare(a.back, b.back), cmp.Compare(a.Queue, b.Queue))
	})
	if known < math.MaxInt64 {
		return slices.DeleteFunc(first, func(h head) bool { return h.back > known })
	}
	for len(classes) > 0 {
		at := class.Next(virtual, len(classes), func(i int) class.Member { return classes[i].Member })
		h, more := classes[at].take()
		if first = append(first, h); more {
			break
		}
		if len(classes[at].tenants) == 0 {
			classes = slices.Delete(classes, at, at+1)
		}
	}
	return first
}

// ofClass is a class with its waiting tenants, ofTenant one of these with its tasks in each queue.
type ofClass struct {
	class.Member

	virtual float64
	tenants []*ofTenant
}

type ofTenant struct {
	class.Member

	lanes []*lane
}

// addTo adds a lane to its class.
func addTo(classes []*ofClass, l *lane, virtual float64) []*ofClass {
	at := slices.IndexFunc(classes, func(c *ofClass) bool { return c.Name == l.class })
	if at < 0 {
		at = len(classes)
		member := class.Member{Name: l.class, Begins: max(virtual, l.ends)}
		classes = append(classes, &ofClass{Member: member, virtual: l.virtual})
	}
	c := classes[at]
	at = slices.IndexFunc(c.tenants, func(t *ofTenant) bool { return t.Name == l.tenant })
	if at < 0 {
		at = len(c.tenants)
		member := class.Member{Name: l.tenant, Begins: max(l.virtual, l.begins)}
		c.tenants = append(c.tenants, &ofTenant{Member: member})
	}
	c.tenants[at].lanes = append(c.tenants[at].lanes, l)
	return classes
}

// take takes the next task of the class. More says that its lane has others, which are not known.
func (c *ofClass) take() (h head, more bool) {
	at := class.Next(c.virtual, len(c.tenants), func(i int) class.Member { return c.tenants[i].Member })
	t := c.tenants[at]
	l := slices.MinFunc(t.lanes, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.heads[0].tag, b.heads[0].tag), cmp.Compare(a.heads[0].Queue, b.heads[0].Queue))
	})
	h, l.heads, l.count = l.heads[0], l.heads[1:], l.count-1
	c.Begins += h.turn
	t.Begins += h.part
	if len(l.heads) > 0 {
		return h, false
	}
	t.lanes = slices.DeleteFunc(t.lanes, func(other *lane) bool { return other == l })
	if len(t.lanes) == 0 {
		c.tenants = slices.Delete(c.tenants, at, at+1)
	}
	return h, l.count > 0
}
