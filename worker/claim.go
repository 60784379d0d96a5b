package worker

import (
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// claim is one charge of a delivery, and the answer of its bucket.
type claim struct {
	charge  reservations.Charge
	held    *reservations.Reservation // what the task holds because it waited for the bucket; nil where it is new there
	behind  bool                      // other tasks wait for the bucket, and this one has to wait behind them
	outcome reservations.Outcome      // the answer of this delivery; zero until the bucket is asked
	decided time.Time                 // when that was decided, on this machine's clock
	latest  time.Time                 // and when at the latest
}

// claims are the charges of a task, in the order in which it names them: the narrowest first, the provider's last.
type claims []*claim

func newClaims(charges []reservations.Charge) claims {
	cs := make(claims, len(charges))
	for i, c := range charges {
		c.Shard = 0 // the limiter chooses, or the waitlist says
		cs[i] = &claim{charge: c}
	}
	return cs
}

// arrived sets what the task holds in the buckets. Express says whether a charge may start before ordinary tasks that wait.
func (cs claims) arrived(turn scheduler.Turn, express func(reservations.Charge) bool) {
	for i, c := range cs {
		c.charge = turn.Charges[i]
		c.held, c.behind = turn.Reservation(c.charge), turn.Behind(c.charge) && !express(c.charge)
	}
}

// admit asks the buckets in order. It returns the first claim whose bucket does not let the task start, or can't be
// asked, with the error of ask. Nil means that all buckets let the task start. Ask first waits for the holds of the
// buckets before: so the provider's bucket, the last one, decides just before the call.
//
// If other tasks wait for one of the buckets, the task waits there at once. To ask the buckets before it would take
// tokens that the task can't use, and later tasks would pass it while it holds for them.
func (cs claims) admit(ask func(*claim) error) (stopped *claim, err error) {
	if i := slices.IndexFunc(cs, func(c *claim) bool { return c.behind }); i >= 0 {
		return cs[i], ask(cs[i])
	}
	for _, c := range cs {
		if c.outcome.Started() { // before another one's start came too late
			continue
		}
		if err := ask(c); err != nil || !c.outcome.Started() {
			return c, err
		}
	}
	return nil, nil //nolint:nilnil // nothing stopped it
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

// leased are the claims that have slots of calls in flight.
func (cs claims) leased() (leased claims) {
	for _, c := range cs {
		if c.charge.Lease.ID != 0 {
			leased = append(leased, c)
		}
	}
	return leased
}

// lose resets the starts that came too late, except the starts that last, so that their buckets are asked again. The
// tokens and the reservations of these starts are lost. It reports whether there are any.
func (cs claims) lose(lasts func(*claim) bool) (lost bool) {
	for _, c := range cs.started() {
		if !lasts(c) {
			c.outcome, lost = reservations.Outcome{}, true
			c.held = &reservations.Reservation{Shard: c.charge.Shard}
		}
	}
	return lost
}

// ready is when the task may run, on this machine's clock: when every bucket has been waited for. A start that is too
// soon breaks the limit, so the latest moment counts at which a hold can have begun.
func (cs claims) ready() (ready time.Time) {
	for _, c := range cs {
		if at := c.latest.Add(c.outcome.Hold); at.After(ready) {
			ready = at
		}
	}
	return ready
}

func (cs claims) charges() (charges []reservations.Charge) {
	for _, c := range cs {
		charges = append(charges, c.charge)
	}
	return charges
}

// answers returns the answers of the buckets in this delivery.
func (cs claims) answers() (all []scheduler.Answer) {
	for _, c := range cs {
		all = append(all, scheduler.Answer{Bucket: c.charge.Bucket(), Outcome: c.outcome})
	}
	return all
}

// provider is the claim for the provider that serves the task: the last.
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
