package scheduler

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// simList is a model of the scripts of package waitlist: the same fields, the same rules, one queue. Times are those
// of Redis's clock since the base of the simulation.
type simList struct {
	now     func() time.Duration
	wake    func(in time.Duration) // publishes
	name    func(task int) waitlist.Task
	index   map[string]time.Duration
	buckets map[string]*simBucket
	records map[int]*simRecord
	duty    struct {
		id         int
		until, now time.Duration
	}
}

// simBucket is what the waitlist keeps of one bucket.
type simBucket struct {
	known               bool // has an epoch
	virtual             float64
	flows               map[string]float64
	waiting             []simPlace // by tag
	promoted            []simPromoted
	sums                reservations.Tokens // of waiting and promoted tasks
	state               []byte
	generation, version int64
	offset              time.Duration
	failed              time.Duration // zero: it answers
}

type simPlace struct {
	tag  float64
	task int
}

type simPromoted struct {
	task int
	at   time.Duration
}

// simRecord is what the waitlist keeps of one task.
type simRecord struct {
	bucket string
	entry  waitlist.Entry // of the last Join
	held   map[string]simHeld
	info   waitInfo
}

type simHeld struct {
	tag      float64
	reserved bool
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
		b = &simBucket{flows: map[string]float64{}, sums: reservations.Tokens{}}
		l.buckets[name] = b
	}
	return b
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
	if len(b.waiting)+len(b.promoted) > 0 {
		return false
	}
	for _, end := range b.flows {
		b.virtual = max(b.virtual, end)
	}
	clear(b.flows)
	clear(b.sums)
	delete(l.index, name)
	return true
}

func comparePlaces(a, b simPlace) int {
	return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.task, b.task))
}

func (b *simBucket) enlist(p simPlace) (first bool) {
	i, _ := slices.BinarySearchFunc(b.waiting, p, comparePlaces)
	b.waiting = slices.Insert(b.waiting, i, p)
	return i == 0
}

func (b *simBucket) waits(p simPlace) bool {
	_, found := slices.BinarySearchFunc(b.waiting, p, comparePlaces)
	return found
}

func (b *simBucket) unlist(p simPlace) bool {
	i, found := slices.BinarySearchFunc(b.waiting, p, comparePlaces)
	switch {
	case found && i == 0:
		b.waiting = b.waiting[1:]
	case found:
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return found
}

func (b *simBucket) promotedAt(task int) int {
	return slices.IndexFunc(b.promoted, func(p simPromoted) bool { return p.task == task })
}

// withdraw takes a task out of its list, and returns the bucket.
func (l *simList) withdraw(task int) string {
	r := l.records[task]
	if r == nil {
		return ""
	}
	b := l.bucket(r.bucket)
	if b.unlist(simPlace{tag: r.held[r.bucket].tag, task: task}) || b.demote(task) {
		b.charge(r.entry.Tokens, -1)
	}
	return r.bucket
}

// demote takes a task out of the promoted ones, and returns whether it was there.
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

// join is joinScript for one task.
func (l *simList) join(task int, e waitlist.Entry, info waitInfo) reservations.Tokens {
	before := l.soonest()
	left := l.withdraw(task)
	b := l.bucket(e.Bucket)
	b.known = true
	r := l.records[task]
	if r == nil {
		r = &simRecord{held: map[string]simHeld{}}
		l.records[task] = r
	}
	var tag float64
	if kept, ok := r.held[e.Bucket]; ok {
		tag = kept.tag
	} else if e.Front {
		tag = b.virtual - 1e-6
	} else {
		tag = max(b.virtual, b.flows[e.Flow])
		b.flows[e.Flow] = tag + min(max(e.Cost, 1e-6), 1e6)
	}
	r.bucket, r.entry, r.info = e.Bucket, e, info
	r.held[e.Bucket] = simHeld{tag: tag, reserved: e.Reserved}
	first := b.enlist(simPlace{tag: tag, task: task})
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
		if l.bucket(r.bucket).waits(simPlace{tag: r.held[r.bucket].tag, task: task}) {
			a.State = waitlist.StateWaiting
		}
		for name, h := range r.held {
			a.Held = append(a.Held, waitlist.Held{Bucket: name, Reserved: h.reserved})
		}
	}
	for _, name := range buckets {
		a.Waiting = append(a.Waiting, len(l.bucket(name).waiting))
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
		if look && len(b.waiting)+len(b.promoted) > 0 {
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

func (l *simList) fail(name string, pause time.Duration) {
	b := l.bucket(name)
	b.known = true
	b.failed = max(b.failed, l.now()+pause)
	if !l.tidy(name) {
		l.index[name] = b.failed
	}
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

// look is lookScript.
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

// names are the planned buckets, in the order of their looks.
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
		b.enlist(simPlace{tag: r.held[r.bucket].tag, task: task})
	}
}

func (l *simList) due(name string, b *simBucket, now time.Duration) waitlist.Due {
	l.index[name] = now + dispatcherLease
	d := waitlist.Due{
		Bucket: name, Planned: int64(l.index[name]), State: b.state, Offset: b.offset, Failed: b.failed > 0,
		PromotedCount: len(b.promoted), More: len(b.waiting) > headsMost,
	}
	waiting := func(task int) waitlist.Waiting {
		e := l.records[task].entry
		return waitlist.Waiting{Task: l.name(task), Tokens: e.Tokens, Urgent: e.Urgent, Reserved: e.Reserved}
	}
	heads := b.waiting[:min(len(b.waiting), headsMost)]
	d.Heads = make([]waitlist.Waiting, 0, len(heads))
	for _, p := range b.promoted[:min(len(b.promoted), promotedMost)] {
		w := waiting(p.task)
		w.Since = simBase.Add(p.at)
		d.Promoted = append(d.Promoted, w)
	}
	for _, p := range heads {
		d.Heads = append(d.Heads, waiting(p.task))
	}
	return d
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
			if r == nil || r.bucket != p.Bucket || !b.unlist(simPlace{tag: r.held[p.Bucket].tag, task: task}) {
				continue
			}
			b.promoted = append(b.promoted, simPromoted{task: task, at: now})
			b.virtual = max(b.virtual, r.held[p.Bucket].tag)
			promoted = append(promoted, task)
		}
		for flow, end := range b.flows {
			if end <= b.virtual {
				delete(b.flows, flow)
			}
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
