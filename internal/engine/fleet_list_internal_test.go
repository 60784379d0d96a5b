package engine

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// simList is a model of the scripts of package waitlist: the same fields, the same rules, one queue. Times are by
// Redis's clock, since simBase.
type simList struct {
	now     func() time.Duration
	wake    func(in time.Duration) // publishes the wake message
	name    func(task int) waitlist.Task
	index   map[string]time.Duration
	buckets map[string]*simBucket
	records map[int]*simRecord
	duty    struct {
		id         int
		until, now time.Duration
	}
}

// simBucket is the waitlist's data of one bucket.
type simBucket struct {
	known               bool // whether the bucket has an epoch
	virtual             float64
	classes             map[string]*simClass
	promoted            []simPromoted
	sums                reservations.Tokens // of waiting and promoted tasks
	state               []byte
	generation, version int64
	offset              time.Duration
	failed, away        time.Duration // zero if the bucket answers
}

// simClass is the waitlist's data of one class of a bucket.
type simClass struct {
	inner, outer float64
	flows        map[string]float64
	waiting      []simPlace // by tag
}

type simPlace struct {
	tag  float64
	task int
}

type simPromoted struct {
	task int
	at   time.Duration
}

// simRecord is the waitlist's data of one task.
type simRecord struct {
	bucket string
	entry  waitlist.Entry // of the last Join
	held   map[string]simHeld
	info   WaitInfo
}

type simHeld struct {
	tag, turn float64
	class     string
	reserved  bool
}

func newSimList(now func() time.Duration, wake func(time.Duration), name func(int) waitlist.Task) *simList {
	return &simList{
		now: now, wake: wake, name: name,
		index: map[string]time.Duration{}, buckets: map[string]*simBucket{}, records: map[int]*simRecord{},
	}
}

func (l *simList) bucket(name string) *simBucket {
	b := l.buckets[name]
	if b == nil {
		b = &simBucket{classes: map[string]*simClass{}, sums: reservations.Tokens{}}
		l.buckets[name] = b
	}
	return b
}

func (b *simBucket) class(name string) *simClass {
	c := b.classes[name]
	if c == nil {
		c = &simClass{flows: map[string]float64{}}
		b.classes[name] = c
	}
	return c
}

func (b *simBucket) waiting() (n int) {
	for _, c := range b.classes {
		n += len(c.waiting)
	}
	return n
}

func (l *simList) soonest() time.Duration {
	first := time.Duration(math.MaxInt64)
	for _, at := range l.index {
		first = min(first, at)
	}
	return first
}

func (l *simList) wakeIfSooner(before time.Duration) {
	if after := l.soonest(); after < before {
		l.wake(max(0, after-l.now()))
	}
}

func (l *simList) forward(name string) {
	at := max(l.now(), l.bucket(name).failed)
	if planned, ok := l.index[name]; !ok || planned > at {
		l.index[name] = at
	}
}

// tidy ends the planning for a bucket without tasks.
func (l *simList) tidy(name string) bool {
	b := l.bucket(name)
	if b.waiting()+len(b.promoted) > 0 {
		return false
	}
	for _, c := range b.classes {
		for _, end := range c.flows {
			c.inner = max(c.inner, end)
		}
		c.outer = 0
		clear(c.flows)
	}
	b.virtual = 0
	clear(b.sums)
	delete(l.index, name)
	return true
}

func comparePlaces(a, b simPlace) int {
	return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.task, b.task))
}

func (c *simClass) enlist(p simPlace) (first bool) {
	i, _ := slices.BinarySearchFunc(c.waiting, p, comparePlaces)
	c.waiting = slices.Insert(c.waiting, i, p)
	return i == 0
}

// waits returns whether the task is in the list of its bucket.
func (l *simList) waits(task int) bool {
	r := l.records[task]
	h := r.held[r.bucket]
	_, found := slices.BinarySearchFunc(l.bucket(r.bucket).class(h.class).waiting, simPlace{h.tag, task}, comparePlaces)
	return found
}

// unlist removes the task from the list of its bucket.
func (l *simList) unlist(task int) bool {
	r := l.records[task]
	h := r.held[r.bucket]
	c := l.bucket(r.bucket).class(h.class)
	i, found := slices.BinarySearchFunc(c.waiting, simPlace{h.tag, task}, comparePlaces)
	switch {
	case found && i == 0:
		c.waiting = c.waiting[1:]
	case found:
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return found
}

func (b *simBucket) promotedAt(task int) int {
	return slices.IndexFunc(b.promoted, func(p simPromoted) bool { return p.task == task })
}

// withdraw removes a task from its list, and returns the bucket.
func (l *simList) withdraw(task int) string {
	r := l.records[task]
	if r == nil {
		return ""
	}
	b := l.bucket(r.bucket)
	if l.unlist(task) || b.demote(task) {
		b.charge(r.entry.Tokens, -1)
	}
	return r.bucket
}

// demote removes a task from the promoted ones, and returns whether it was there.
func (b *simBucket) demote(task int) bool {
	i := b.promotedAt(task)
	if i >= 0 {
		b.promoted = slices.Delete(b.promoted, i, i+1)
	}
	return i >= 0
}

func (b *simBucket) charge(tokens map[string]float64, sign float64) {
	for meter, n := range tokens {
		b.sums[meter] += sign * n
	}
}

// park is parkScript for one task.
func (l *simList) park(task int) {
	if r := l.records[task]; r != nil && l.bucket(r.bucket).demote(task) {
		l.bucket(r.bucket).charge(r.entry.Tokens, -1)
		l.tidy(r.bucket)
	}
}

// join is join.lua for one task.
func (l *simList) join(task int, e waitlist.Entry, info WaitInfo) reservations.Tokens {
	before := l.soonest()
	left := l.withdraw(task)
	b := l.bucket(e.Bucket)
	b.known = true
	r := l.records[task]
	if r == nil {
		r = &simRecord{held: map[string]simHeld{}}
		l.records[task] = r
	}
	h, ok := r.held[e.Bucket]
	if !ok {
		least := func(cost float64) float64 { return min(max(cost, 0x1p-30), 1e6) }
		c := b.class(e.Class)
		h = simHeld{tag: max(c.inner, c.flows[e.Flow]), turn: least(e.Turn), class: e.Class}
		if e.Front {
			h.tag, h.turn = c.inner-1e-6, 0
		} else {
			c.flows[e.Flow] = h.tag + least(e.Cost)
		}
	}
	h.reserved = e.Reserved
	r.bucket, r.entry, r.info = e.Bucket, e, info
	r.held[e.Bucket] = h
	first := b.class(h.class).enlist(simPlace{tag: h.tag, task: task})
	b.charge(e.Tokens, 1)
	if _, planned := l.index[e.Bucket]; first || !planned {
		l.forward(e.Bucket)
	}
	if left != "" && left != e.Bucket {
		l.tidy(left)
	}
	l.wakeIfSooner(before)
	return maps.Clone(b.sums)
}

// arrive is arriveScript for one task.
func (l *simList) arrive(task int, buckets []string) waitlist.Arrived {
	var a waitlist.Arrived
	if r := l.records[task]; r != nil {
		a.State, a.Bucket, a.Info = waitlist.StatePromoted, r.bucket, r.info.encode()
		if l.waits(task) {
			a.State = waitlist.StateWaiting
		}
		for name, h := range r.held {
			a.Held = append(a.Held, waitlist.Held{Bucket: name, Reserved: h.reserved})
		}
	}
	for _, name := range buckets {
		a.Waiting = append(a.Waiting, l.bucket(name).waiting())
	}
	return a
}

// simAnswer is waitlist.Answer.
type simAnswer struct {
	bucket              string
	generation, version int64
	store               time.Duration
	state               []byte
	sooner, joins       bool
}

// report is reportScript.
func (l *simList) report(answers []simAnswer, begun []int) {
	before := l.soonest()
	for _, a := range answers {
		b := l.bucket(a.bucket)
		if b.known = b.known || a.joins; !b.known {
			continue
		}
		look := a.sooner
		if a.generation > b.generation || a.generation == b.generation && a.version >= b.version {
			b.generation, b.version, b.state, b.offset = a.generation, a.version, a.state, a.store-l.now()
			if b.failed > 0 {
				b.failed, look = 0, true
			}
		}
		if look && b.waiting()+len(b.promoted) > 0 {
			l.forward(a.bucket)
		}
	}
	for _, task := range begun {
		if left := l.withdraw(task); left != "" {
			delete(l.records, task)
			l.tidy(left)
		}
	}
	l.wakeIfSooner(before)
}

// leave is leaveScript for one task.
func (l *simList) leave(task int) {
	before := l.soonest()
	if left := l.withdraw(task); left != "" {
		delete(l.records, task)
		if !l.tidy(left) {
			l.forward(left)
		}
	}
	l.wakeIfSooner(before)
}

// fail is failScript for a store that is away.
func (l *simList) fail(name string, random float64) (pause time.Duration) {
	b, now := l.bucket(name), l.now()
	if b.failed == 0 || b.failed < now-30*time.Second {
		b.away = now
	}
	b.known = true
	pause = time.Duration(float64(min(max(now-b.away, pauseShortest), pauseLongest)) * (1 + random))
	b.failed = max(b.failed, now+pause)
	if !l.tidy(name) {
		l.index[name] = b.failed
	}
	return b.failed - now
}

func (l *simList) recover() {
	before := l.soonest()
	for name, b := range l.buckets {
		if b.failed > 0 {
			if b.failed = 0; !l.tidy(name) {
				l.forward(name)
			}
		}
	}
	l.wakeIfSooner(before)
}

// look is look.lua.
func (l *simList) look(id int) waitlist.Look {
	now := l.now()
	look := waitlist.Look{Now: simBase.Add(now)}
	if now < l.duty.now-time.Second {
		l.duty.until = 0
		for name := range l.index {
			l.index[name] = now
			b := l.buckets[name]
			b.state, b.generation, b.version, b.offset = nil, 0, 0, 0
		}
	}
	if l.duty.id != 0 && l.duty.id != id && l.duty.until > now {
		look.Rest = l.duty.until - now
		return look
	}
	look.OnDuty, look.TookOver = true, l.duty.id != id
	rest := dispatcherRest
	looked := map[string]bool{}
	for _, name := range l.names() {
		b := l.buckets[name]
		switch {
		case l.index[name] > now:
			continue
		case b.failed > 0 && b.failed > now:
			l.index[name] = b.failed
			continue
		case l.tidy(name):
			continue
		}
		l.retried(b, now)
		looked[name] = true
		look.Due = append(look.Due, l.due(name, b, now))
	}
	for name, at := range l.index {
		if !looked[name] {
			rest = min(rest, at-now)
		}
	}
	look.Rest = max(0, rest)
	l.duty.id, l.duty.until, l.duty.now = id, now+look.Rest+dispatcherLease, now
	return look
}

// names returns the planned buckets, in the order of their looks.
func (l *simList) names() []string {
	var names []string
	for name := range l.index {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(l.index[a], l.index[b]), cmp.Compare(a, b))
	})
	return names
}

// retried puts promoted tasks that did not begin back into their list.
func (l *simList) retried(b *simBucket, now time.Duration) {
	for len(b.promoted) > 0 && b.promoted[0].at <= now-beginWithin {
		task := b.promoted[0].task
		b.promoted = b.promoted[1:]
		r := l.records[task]
		h := r.held[r.bucket]
		b.class(h.class).enlist(simPlace{tag: h.tag, task: task})
	}
}

func (l *simList) due(name string, b *simBucket, now time.Duration) waitlist.Due {
	l.index[name] = now + dispatcherLease
	d := waitlist.Due{
		Bucket: name, Planned: int64(l.index[name]), State: b.state, Offset: b.offset, Failed: b.failed > 0,
		PromotedCount: len(b.promoted), More: b.waiting() > headsMost,
	}
	waiting := func(task int) waitlist.Waiting {
		e := l.records[task].entry
		return waitlist.Waiting{Task: l.name(task), Tokens: e.Tokens, Urgent: e.Urgent, Reserved: e.Reserved}
	}
	heads := l.first(name, b, headsMost)
	d.Heads = make([]waitlist.Waiting, 0, len(heads))
	for _, p := range b.promoted[:min(len(b.promoted), promotedMost)] {
		w := waiting(p.task)
		w.Since = simBase.Add(p.at)
		d.Promoted = append(d.Promoted, w)
	}
	for _, task := range heads {
		d.Heads = append(d.Heads, waiting(task))
	}
	return d
}

// first returns the first waiting tasks, in order.
func (l *simList) first(name string, b *simBucket, most int) (heads []int) {
	names := slices.Sorted(maps.Keys(b.classes))
	next, ends := map[string]int{}, map[string]float64{}
	for _, class := range names {
		ends[class] = max(b.virtual, b.classes[class].outer)
	}
	for len(heads) < most {
		best, task, begins := "", -1, 0.
		for _, class := range names {
			if c := b.classes[class]; next[class] < len(c.waiting) {
				head := c.waiting[next[class]].task
				at := ends[class]
				if l.records[head].held[name].turn == 0 {
					at = -1
				}
				if task < 0 || at < begins {
					best, task, begins = class, head, at
				}
			}
		}
		if task < 0 {
			break
		}
		next[best]++
		ends[best] += l.records[task].held[name].turn
		heads = append(heads, task)
	}
	return heads
}

// promote is promoteScript.
func (l *simList) promote(id int, plans []waitlist.Plan, taskOf func(waitlist.Task) int) (promoted []int, onDuty bool) {
	if l.duty.id != id {
		return nil, false
	}
	now := l.now()
	for _, p := range plans {
		b := l.bucket(p.Bucket)
		for _, t := range p.Promote {
			task := taskOf(t)
			r := l.records[task]
			if r == nil || r.bucket != p.Bucket || !l.unlist(task) {
				continue
			}
			b.promoted = append(b.promoted, simPromoted{task: task, at: now})
			h := r.held[p.Bucket]
			c := b.class(h.class)
			c.inner = max(c.inner, h.tag)
			if h.turn > 0 {
				b.virtual = max(b.virtual, c.outer)
				c.outer = b.virtual + h.turn
				h.turn = 0
				r.held[p.Bucket] = h
			}
			promoted = append(promoted, task)
		}
		for _, c := range b.classes {
			maps.DeleteFunc(c.flows, func(_ string, end float64) bool { return end <= c.inner })
		}
		at, planned := l.index[p.Bucket]
		if l.tidy(p.Bucket) || planned && (int64(at) != p.Planned || at <= now) {
			continue
		}
		next := beginWithin
		if p.Next > 0 {
			next = p.Next
		}
		at = now + next
		if len(b.promoted) > 0 {
			at = min(at, b.promoted[0].at+beginWithin)
		}
		l.index[p.Bucket] = at
	}
	return promoted, true
}
