package worker

import (
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// claim is one charge of a delivery, and how it stands with its bucket.
type claim struct {
	charge  reservations.Charge
	place   reservations.Place   // what the task came with, and after this delivery what is kept of it
	outcome reservations.Outcome // the answer of this delivery; zero until it is asked
	decided time.Time            // when that was decided, on this machine's clock
	latest  time.Time            // and when at the latest
	lost    bool                 // the start before came too late, and what it took is gone
	came    *reservations.Place  // what the task came with, where a start came too late since; else nil
}

// claims are the charges of a task, in the order in which it names them: the narrowest first, the provider's last.
type claims []*claim

func newClaims(charges []reservations.Charge) claims {
	cs := make(claims, len(charges))
	for i, c := range charges {
		c.Shard = 0 // that of a place counts, and of an answer
		cs[i] = &claim{charge: c}
	}
	return cs
}

// recall lets the claims have the places that were kept for them. It returns the claim in whose line the task stood, else the first.
func (cs claims) recall(held []scheduler.Held) *claim {
	stood := cs[0]
	for i, h := range held {
		for _, c := range cs {
			if !h.For(c.charge) {
				continue
			}
			if c.place, c.charge.Shard = h.Place, h.Shard; i == 0 {
				stood = c
			}
		}
	}
	return stood
}

// admit asks the buckets in order, until one does not let the task start or can't be asked: that one is returned, with the error of
// ask. Nil means that all let it start. Ask has to wait first until those that let it start before are ready: so the provider's bucket,
// the last, decides when the call is about to be made, however long the others have it hold.
func (cs claims) admit(ask func(*claim) error) (stopped *claim, err error) {
	for _, c := range cs {
		if c.outcome.Started() { // before another one's start came too late
			continue
		}
		if err := ask(c); err != nil || !c.outcome.Started() {
			return c, err
		}
	}
	return nil, nil //nolint:nilnil // nobody stopped it
}

// started are the claims whose bucket let the task start in this delivery.
func (cs claims) started() (started claims) {
	for _, c := range cs {
		if c.outcome.Started() {
			started = append(started, c)
		}
	}
	return started
}

// keep makes the places of this delivery those that the task comes back with: where it was let start and does not, it is late, and
// asks before all who wait.
func (cs claims) keep() {
	for _, c := range cs {
		switch {
		case c.outcome.Started():
			c.place = c.unused().Place()
		case c.outcome.State != "":
			c.place = c.outcome.Place()
		}
	}
}

// lose is keep for starts that came too late: but for those that last they are to be asked for anew. It says whether there are any.
func (cs claims) lose(lasts func(*claim) bool) (lost bool) {
	for _, c := range cs {
		if c.came == nil {
			place := c.place
			c.came = &place
		}
	}
	cs.keep()
	for _, c := range cs.started() {
		if !lasts(c) {
			c.outcome, c.lost, lost = reservations.Outcome{}, true, true
		}
	}
	return lost
}

// unused is the outcome of a start that was not used: the task is late, and comes back as the first of its line.
func (c *claim) unused() reservations.Outcome {
	o := c.outcome
	o.State, o.Due, o.Hold = reservations.StateLate, o.At.Add(o.Hold+o.Shift), 0
	return o
}

// first is the place with which the task was delivered.
func (c *claim) first() reservations.Place {
	if c.came != nil {
		return *c.came
	}
	return c.place
}

// others are the places that are kept beside that of c. A claim without a place is left out: it asks as new.
func (cs claims) others(c *claim) (others []scheduler.Held) {
	for _, other := range cs {
		if other != c && other.place.State != "" {
			others = append(others, scheduler.Held{Place: other.place, Bucket: other.charge.Bucket()})
		}
	}
	return others
}

// ready is when the task may run, on this machine's clock: when every bucket has been waited for. What starts too soon breaks the limit, so the latest moment counts at which a hold
// can have begun.
func (cs claims) ready() (ready time.Time) {
	for _, c := range cs {
		if at := c.latest.Add(c.outcome.Hold); at.After(ready) {
			ready = at
		}
	}
	return ready
}

// held says whether a bucket had the task hold.
func (cs claims) held() bool {
	return slices.ContainsFunc(cs, func(c *claim) bool { return c.outcome.Hold > 0 })
}

func (cs claims) charges() (charges []reservations.Charge) {
	for _, c := range cs {
		charges = append(charges, c.charge)
	}
	return charges
}

// provider is the claim that stands for whoever serves the task: the last.
func (cs claims) provider() *claim { return cs[len(cs)-1] }

// nothing says for each bucket that none of its meters was used.
func (cs claims) nothing() map[string]reservations.Tokens {
	none := map[string]reservations.Tokens{}
	for _, c := range cs {
		none[c.charge.Bucket()] = reservations.Unused(c.charge)
	}
	return none
}

// names are the limits and the buckets, as logs show them.
func (cs claims) names() (limits, buckets string) {
	var l, b []string
	for _, c := range cs {
		l, b = append(l, c.charge.Limit), append(b, c.charge.Bucket())
	}
	return strings.Join(l, ","), strings.Join(b, ",")
}
