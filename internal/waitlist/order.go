package waitlist

import (
	"cmp"
	"slices"

	"github.com/headway-go/headway/internal/class"
)

// lane is one list of a bucket: the waiting tasks of one class in one queue, in order of their tags.
type lane struct {
	class string
	ends  float64 // the end of the last turn of the class
	count int     // of all its tasks
	heads []head  // its first ones
}

// head is a task at the head of a lane.
type head struct {
	Waiting

	class string
	turn  float64 // that the task takes from its class; zero after its first promotion
}

// ordered are the heads of the lanes in the order in which their tasks start, at most that many. Within a class the
// smallest tag is first, of equal ones the first queue by name. Whose turn it is says class.Next; virtual is the latest
// start of a turn. Others is how many more tasks wait.
func ordered(virtual float64, lanes []lane, most int) (first []head, others int) {
	classes, ends := map[string][]head{}, map[string]float64{}
	for _, l := range lanes {
		others += l.count
		if len(l.heads) > 0 {
			classes[l.class] = append(classes[l.class], l.heads...)
			ends[l.class] = max(virtual, l.ends)
		}
	}
	for _, heads := range classes {
		slices.SortStableFunc(heads, func(a, b head) int {
			return cmp.Or(cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Queue, b.Queue))
		})
	}
	for len(first) < most {
		var next []class.Head
		for name, heads := range classes {
			if len(heads) > 0 {
				next = append(next, class.Head{Class: name, Ends: ends[name], Turn: heads[0].turn})
			}
		}
		i := class.Next(virtual, next)
		if i < 0 {
			break
		}
		name := next[i].Class
		h := classes[name][0]
		classes[name] = classes[name][1:]
		ends[name] += h.turn
		first = append(first, h)
	}
	return first, others - len(first)
}
