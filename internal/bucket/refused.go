package bucket

import (
	"cmp"
	"slices"
	"time"
)

// Reason is why a provider refuses a call.
type Reason string

// The reasons, which package reservations explains.
const (
	ReasonLimit Reason = "limit"
	ReasonQuota Reason = "quota"
	ReasonKey   Reason = "key"
)

// Stops says whether only people can end what the provider refuses for.
func (r Reason) Stops() bool { return r == ReasonQuota || r == ReasonKey }

// Sentence says what people have to act on; empty if they need not.
func (r Reason) Sentence() string {
	switch r {
	case ReasonQuota:
		return "the provider says that the account has no quota left"
	case ReasonKey:
		return "the provider does not accept the key"
	case ReasonLimit:
	}
	return ""
}

// known says whether a request may have the reason.
func (r Reason) known() bool { return r == "" || r == ReasonLimit || r.Stops() }

const (
	// pauseFirst and pauseMost are the first and the longest pause after a refusal that names no time.
	pauseFirst = time.Second
	pauseMost  = time.Minute
	// stopFirst and stopMost are the same if only people can end what the provider refuses for.
	stopFirst = 15 * time.Second
	stopMost  = 10 * time.Minute
	// gapLeast is the shortest gap between starts that is kept.
	gapLeast = 50 * time.Millisecond
	// goodFor is for how long a good answer says that the provider serves others.
	goodFor = time.Minute
	// refusersMost is how many callers without a good answer a bucket remembers. It does so for refusersFor, and at least
	// for refusersTimes as long as they stopped it: a caller that is forgotten may stop the bucket again.
	refusersMost  = 16
	refusersFor   = 10 * time.Minute
	refusersTimes = 20
	// rowFor is for how long a bucket remembers that its provider refuses everything.
	rowFor = time.Hour
)

// Refused is what the provider of a bucket refused since its last good answer. It is a value: a change is a copy.
type Refused struct {
	// Reason is that of the last refusal.
	Reason Reason `json:"why,omitempty" bson:"w"`
	// Times counts refusals in a row, each of a call that was granted after the one before. Since is when the first of
	// them came, At when the last one did.
	Times int       `json:"n,omitempty" bson:"n"`
	Since time.Time `json:"since,omitzero" bson:"f"`
	At    time.Time `json:"at,omitzero" bson:"a"`
	// Gap is how far apart tasks start until an answer is good. Zero means that they need not be apart.
	Gap time.Duration `json:"gap,omitempty" bson:"g"`
	// Paused is when the last pause ends, which the bucket chose itself. A good answer ends it.
	Paused time.Time `json:"-" bson:"p"`
	// Good is when the last good answer came.
	Good time.Time `json:"-" bson:"o"`
	// By are the callers whose refusals stopped the bucket, and that had no good answer since, in this order.
	By []Refuser `json:"-" bson:"b"`
}

// Refuser is a caller that was refused: a flow, a task, or a worker.
type Refuser struct {
	ID int64 `bson:"i"`
	// Stopped is for how long its refusals stopped the bucket. At is when the last one did.
	Stopped time.Duration `bson:"s"`
	At      time.Time     `bson:"a"`
}

// Refusing says why the provider has refused the last call, and since when it refuses; empty after a good answer.
func (b Bucket) Refusing() (why Reason, since time.Time) {
	if b.Refused == nil || b.Refused.Times == 0 {
		return "", time.Time{}
	}
	return b.Refused.Reason, b.Refused.Since
}

// Awaits says whether the bucket needs to know that a call of the caller had a good answer. B is the answer to its
// start.
func (b Bucket) Awaits(by int64) bool {
	r := b.Refused
	return r != nil && (r.Times > 0 || r.caller(by) >= 0 || b.At.Sub(r.Good) > goodFor/2)
}

// copied is a copy to change.
func (r *Refused) copied() *Refused {
	if r == nil {
		return &Refused{}
	}
	c := *r
	c.By = slices.Clone(r.By)
	return &c
}

func (r *Refused) caller(id int64) int {
	return slices.IndexFunc(r.By, func(by Refuser) bool { return by.ID == id })
}

// at is what the bucket remembers at a moment.
func (r *Refused) at(now time.Time) *Refused {
	forgotten := func(by Refuser) bool { return !now.Before(by.until()) }
	switch {
	case r == nil, !now.Before(r.until()):
		return nil
	case !slices.ContainsFunc(r.By, forgotten):
		return r
	}
	c := r.copied()
	c.By = slices.DeleteFunc(c.By, forgotten)
	return c
}

// until is when the bucket forgets all of r.
func (r *Refused) until() time.Time {
	end := Later(r.Good, r.At).Add(refusersFor)
	if r.Times > 0 {
		end = r.At.Add(rowFor)
	}
	for _, by := range r.By {
		end = Later(end, by.until())
	}
	return end
}

// until is when the bucket forgets the caller.
func (r Refuser) until() time.Time { return r.At.Add(max(refusersFor, refusersTimes*r.Stopped)) }

// moved is r on a clock that is later by d.
func (r *Refused) moved(d time.Duration) *Refused {
	if r == nil {
		return nil
	}
	c := r.copied()
	for _, at := range []*time.Time{&c.Since, &c.At, &c.Paused, &c.Good} {
		if !at.IsZero() {
			*at = at.Add(d)
		}
	}
	for i := range c.By {
		c.By[i].At = c.By[i].At.Add(d)
	}
	return c
}

// refuse stops the bucket because the provider refused a call of the caller r.By that was granted at r.Began.
//
// A refusal that names a time stops the bucket for that time. Any other pauses it: the pause doubles with each refusal
// in a row, and starts are as far apart until an answer is good. Refusals of calls that were under way when the last
// one came are no further ones.
//
// The refusals of a caller together stop the bucket for max_block until the caller has a good answer; with each other
// caller that waits for one, for half of that. Beyond that, StateRefused says that the caller alone has to wait. So it
// does if only people can end what is refused, and others have good answers.
//
// All of that ends where the provider refuses everything: then the bucket pauses for each caller. StateWaiting says
// that the next call to ask is one of another caller.
func (b *Bucket) refuse(l Limit, r Request) Answer {
	row := b.Refused.copied()
	further := r.Began.After(row.At) || r.Began.IsZero()
	if r.For <= 0 && !further {
		return Answer{State: StateSettled, RetryAt: b.Blocked}
	}
	everything := row.everything(l.MaxBlock, r.Reason, b.At)
	if further {
		if row.Times++; row.Times == 1 {
			row.Since = b.At
		}
		row.At, row.Reason, row.Gap = b.At, cmp.Or(r.Reason, ReasonLimit), 0
	}
	step := min(row.step(), l.MaxBlock)
	pause := step + time.Duration(b.random()*float64(step/2))
	state, d, left := StateSettled, r.For, row.left(l.MaxBlock, r.By)
	served := !row.Good.IsZero() && b.At.Sub(row.Good) < goodFor // others
	alone := left <= 0 || r.Reason.Stops() && served
	switch {
	case everything && (alone || r.Reason.Stops()):
		state, d, left = StateWaiting, pause, l.MaxBlock
	case alone:
		return Answer{State: StateRefused, RetryAt: b.At.Add(min(cmp.Or(d, pause), l.MaxBlock))}
	case d <= 0 || r.Reason.Stops():
		d = max(d, pause)
	}
	before, end := Later(b.Blocked, b.At), b.At.Add(min(d, left))
	if further {
		b.slow(r.Tokens, r.For <= 0)
	} else if !end.After(before) {
		return Answer{State: state, RetryAt: b.Blocked}
	}
	if d != r.For || r.Reason.Stops() {
		row.Gap, row.Paused = min(step, left), end
	}
	if end.After(before) {
		row.stopped(r.By, end.Sub(before), l.MaxBlock, b.At)
		b.stop(end)
	}
	b.Refused = row
	return Answer{State: state, RetryAt: b.Blocked}
}

// everything says whether the provider seems to refuse everything: no call had a good answer for long. If only people
// can end what is refused, one call that asked again is enough.
func (r *Refused) everything(most time.Duration, why Reason, now time.Time) bool {
	long := max(2*most, goodFor)
	return r.Times > 0 && (why.Stops() || now.Sub(Later(r.Good, r.Since)) > long)
}

// step is the pause after the last refusal of r, if nothing else bounds it.
func (r *Refused) step() time.Duration {
	first, most := pauseFirst, pauseMost
	if r.Reason.Stops() {
		first, most = stopFirst, stopMost
	}
	return min(most, first<<min(max(0, r.Times-1), 16))
}

// left is for how long refusals of the caller may still stop the bucket.
func (r *Refused) left(most time.Duration, id int64) time.Duration {
	others, before := len(r.By), time.Duration(0)
	if i := r.caller(id); i >= 0 {
		others, before = others-1, r.By[i].Stopped
	}
	return max(0, most>>others-before).Truncate(time.Millisecond)
}

// stopped adds to the time for which refusals of the caller stopped the bucket, up to most.
func (r *Refused) stopped(id int64, d, most time.Duration, now time.Time) {
	i := r.caller(id)
	if i < 0 {
		if len(r.By) >= refusersMost {
			r.By = r.By[1:]
		}
		i = len(r.By)
		r.By = append(r.By, Refuser{ID: id})
	}
	r.By[i].Stopped = min(most, r.By[i].Stopped+d)
	r.By[i].At = now
}

// answered ends the row of refusals, because a call of the caller that was granted at r.Began had a good answer. A
// call that was granted before the row says nothing of it. One that was granted before the last refusal leaves the
// pause in force. What stops the bucket for a time that the provider named goes on.
func (b *Bucket) answered(r Request) {
	if b.Refused == nil {
		return
	}
	row := b.Refused.copied()
	if i := row.caller(r.By); i >= 0 && r.Began.After(row.By[i].At) {
		row.By = slices.Delete(row.By, i, i+1)
	}
	if !r.Began.Before(row.Since) {
		row.Times, row.Gap, row.Good = 0, 0, b.At
		if row.Paused.Equal(b.Blocked) && r.Began.After(row.At) {
			b.unblock()
		}
	}
	b.Refused = row
}

// space keeps starts apart while the provider refuses calls. After the first refusal in a row the gap shrinks with each
// start.
func (b *Bucket) space(begins time.Time) {
	r := b.Refused
	if r == nil || r.Gap == 0 {
		return
	}
	next := begins.Add(r.Gap)
	if !next.After(b.Blocked) {
		return
	}
	b.Blocked = next
	b.Refused = r.copied()
	b.Refused.Paused = next
	if r.Times == 1 && !r.Reason.Stops() {
		if b.Refused.Gap = r.Gap / 2; b.Refused.Gap < gapLeast {
			b.Refused.Gap = 0
		}
	}
}

// random is a number in [0, 1) that differs among buckets and moments.
func (b *Bucket) random() float64 {
	x := uint64(b.At.UnixNano()) ^ uint64(b.Generation)<<20 ^ uint64(b.Version)<<40 //nolint:gosec // any bits will do
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return float64((x^x>>31)>>11) / (1 << 53)
}
