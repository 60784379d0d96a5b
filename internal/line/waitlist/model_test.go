package waitlist_test

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/seeded"
)

// model is the waitlists in plain Go. It shares nothing with the scripts: it computes counts, sums and ranks from the
// tasks each time.
type model struct {
	buckets map[string]*bucketModel
	tasks   map[waitlist.Task]*taskModel
	moment  int // the number of the last promotion
}

type bucketModel struct {
	virtual float64
	classes map[string]*classModel
}

type classModel struct {
	ends, virtual float64
	tenants       map[string]*tenantModel
}

type tenantModel struct {
	ends, tag float64
	flows     map[string]float64
}

type taskModel struct {
	bucket     string
	promoted   int // zero for a waiting task
	entry      waitlist.Entry
	tags       map[string]float64
	back       map[string]int // when it was promoted first
	reserved   map[string]bool
	turn, part float64
}

func (m *model) waiting(bucket string) int {
	waits, _ := m.in(bucket)
	return len(waits)
}

// fresh returns the tag of a new task.
func (b *bucketModel) fresh(e waitlist.Entry) float64 {
	c := b.tenant(e)
	return max(c.tag, c.flows[e.Flow])
}

func (m *model) busy(bucket string) bool {
	waits, promoted := m.in(bucket)
	return len(waits)+len(promoted) > 0
}

func (m *model) bucket(name string) *bucketModel {
	if m.buckets[name] == nil {
		m.buckets[name] = &bucketModel{classes: map[string]*classModel{}}
	}
	return m.buckets[name]
}

func (b *bucketModel) class(name string) *classModel {
	if b.classes[name] == nil {
		b.classes[name] = &classModel{tenants: map[string]*tenantModel{}}
	}
	return b.classes[name]
}

func (b *bucketModel) tenant(e waitlist.Entry) *tenantModel {
	c := b.class(e.Class)
	if c.tenants[e.Tenant] == nil {
		c.tenants[e.Tenant] = &tenantModel{flows: map[string]float64{}}
	}
	return c.tenants[e.Tenant]
}

// ordered takes the waiting tasks of a bucket in the order of their tags, and returns them in the order of their turns.
func (m *model) ordered(bucket string, waits []waitlist.Task) (all []waitlist.Task) {
	for _, t := range waits {
		if m.tasks[t].back[bucket] > 0 {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b waitlist.Task) int { return m.tasks[a].back[bucket] - m.tasks[b].back[bucket] })
	waits = slices.DeleteFunc(slices.Clone(waits), func(t waitlist.Task) bool { return m.tasks[t].back[bucket] > 0 })
	b := m.bucket(bucket)
	classes, tenants := map[string]float64{}, map[[2]string]float64{}
	for len(waits) > 0 {
		begins := func(t waitlist.Task) (class, tenant float64) {
			k := m.tasks[t]
			c := b.class(k.entry.Class)
			class = max(classes[k.entry.Class], b.virtual, c.ends)
			return class, max(tenants[[2]string{k.entry.Class, k.entry.Tenant}], c.virtual, b.tenant(k.entry).ends)
		}
		t := slices.MinFunc(waits, func(x, y waitlist.Task) int {
			xClass, xTenant := begins(x)
			yClass, yTenant := begins(y)
			a, b := m.tasks[x].entry, m.tasks[y].entry
			return cmp.Or(cmp.Compare(xClass, yClass), cmp.Compare(a.Class, b.Class),
				cmp.Compare(xTenant, yTenant), cmp.Compare(a.Tenant, b.Tenant),
				slices.Index(waits, x)-slices.Index(waits, y))
		})
		k := m.tasks[t]
		class, tenant := begins(t)
		classes[k.entry.Class], tenants[[2]string{k.entry.Class, k.entry.Tenant}] = class+k.turn, tenant+k.part
		all = append(all, t)
		waits = slices.DeleteFunc(waits, func(other waitlist.Task) bool { return other == t })
	}
	return all
}

// in returns the waiting tasks of a bucket and its promoted tasks, each in order.
func (m *model) in(bucket string) (waits, promoted []waitlist.Task) {
	for t, k := range m.tasks {
		switch {
		case k.bucket != bucket:
		case k.promoted > 0:
			promoted = append(promoted, t)
		default:
			waits = append(waits, t)
		}
	}
	slices.SortFunc(waits, func(a, b waitlist.Task) int {
		tag := func(t waitlist.Task) float64 { return m.tasks[t].tags[bucket] }
		return cmp.Or(cmp.Compare(tag(a), tag(b)), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(promoted, func(a, b waitlist.Task) int { return m.tasks[a].promoted - m.tasks[b].promoted })
	return waits, promoted
}

func (m *model) tokens(bucket string) (sum float64) {
	for _, k := range m.tasks {
		if k.bucket == bucket {
			sum += k.entry.Tokens["n"]
		}
	}
	return sum
}

// flows returns the named flows, the largest first.
func (m *model) flows(bucket string) (all []waitlist.Flow) {
	type name struct{ tenant, flow string }
	tasks := map[name]int{}
	for _, k := range m.tasks {
		if n := (name{k.entry.Tenant, k.entry.Flow}); k.bucket == bucket && n != (name{}) {
			tasks[n]++
		}
	}
	found := slices.SortedFunc(maps.Keys(tasks), func(a, b name) int {
		text := func(n name) string {
			if n.tenant == "" {
				return n.flow
			}
			return n.tenant + "\x00" + n.flow
		}
		return cmp.Or(cmp.Compare(tasks[b], tasks[a]), cmp.Compare(text(b), text(a)))
	})
	for _, n := range found {
		all = append(all, waitlist.Flow{Flow: waitlist.FlowName(n.tenant, n.flow), Tasks: tasks[n]})
	}
	return all
}

// rest forgets buckets that have become idle.
func (m *model) rest() {
	for name := range m.buckets {
		if !m.busy(name) {
			m.buckets[name] = &bucketModel{classes: map[string]*classModel{}}
		}
	}
}

// lone forgets the flows of the task's tenant, if no other task of it waits for its turn.
func (m *model) lone(k *taskModel) bool {
	for _, other := range m.tasks {
		if other != k && other.bucket == k.bucket && other.promoted == 0 && other.back[k.bucket] == 0 &&
			other.entry.Class == k.entry.Class && other.entry.Tenant == k.entry.Tenant {
			return false
		}
	}
	tenant := m.bucket(k.bucket).tenant(k.entry)
	clear(tenant.flows)
	tenant.tag = 0
	return true
}

// withdraw takes a task out of its list.
func (m *model) withdraw(t waitlist.Task) {
	k := m.tasks[t]
	if k != nil && k.promoted == 0 && k.back[k.bucket] == 0 {
		m.lone(k)
	}
}

func (m *model) join(e waitlist.Entry) {
	m.withdraw(e.Task)
	k := m.tasks[e.Task]
	if k == nil {
		k = &taskModel{tags: map[string]float64{}, back: map[string]int{}, reserved: map[string]bool{}}
		m.tasks[e.Task] = k
	}
	if k.bucket != e.Bucket && len(k.tags) > 0 && k.back[k.bucket] == 0 {
		m.moment++
		k.back[k.bucket] = m.moment
	}
	b := m.bucket(e.Bucket)
	tag, known := k.tags[e.Bucket]
	switch {
	case !known:
		tag = b.fresh(e)
		b.tenant(e).flows[e.Flow] = tag + e.Cost
	case k.back[e.Bucket] == 0:
		tag = min(tag, b.fresh(e))
	}
	k.tags[e.Bucket], k.entry, k.turn, k.part = tag, e, e.Turn, e.Part
	k.bucket, k.promoted, k.reserved[e.Bucket] = e.Bucket, 0, e.Reserved
}

// leave forgets a task, and its flow if that has no other tasks. Otherwise it moves the end of a caller's flow back.
func (m *model) leave(t waitlist.Task) {
	k := m.tasks[t]
	if k == nil {
		return
	}
	m.forget(t)
	ends := m.bucket(k.bucket).tenant(k.entry).flows
	for _, other := range m.tasks {
		if other.bucket == k.bucket && other.entry.Tenant == k.entry.Tenant && other.entry.Flow == k.entry.Flow {
			if end, moved := ends[k.entry.Flow]; moved && t.Queue == waitlist.QueueCallers {
				ends[k.entry.Flow] = end - k.entry.Cost
			}
			return
		}
	}
	delete(ends, k.entry.Flow)
}

func (m *model) forget(t waitlist.Task) {
	m.withdraw(t)
	delete(m.tasks, t)
}

func (m *model) promote(bucket string, t waitlist.Task) {
	m.moment++
	k, b := m.tasks[t], m.bucket(bucket)
	k.promoted = m.moment
	if k.back[bucket] > 0 {
		return
	}
	k.back[bucket] = m.moment
	c, tenant := b.class(k.entry.Class), b.tenant(k.entry)
	b.virtual = max(b.virtual, c.ends)
	c.ends = b.virtual + k.turn
	c.virtual = max(c.virtual, tenant.ends)
	tenant.ends = c.virtual + k.part
	if !m.lone(k) {
		tenant.tag = max(tenant.tag, k.tags[bucket])
	}
}

func (m *model) arrived(t waitlist.Task) waitlist.Arrived {
	k := m.tasks[t]
	if k == nil {
		return waitlist.Arrived{}
	}
	a := waitlist.Arrived{State: waitlist.StateWaiting, Bucket: k.bucket}
	if k.promoted > 0 {
		a.State = waitlist.StatePromoted
	}
	for _, name := range slices.Sorted(maps.Keys(k.tags)) {
		a.Held = append(a.Held, waitlist.Held{Bucket: name, Reserved: k.reserved[name]})
	}
	return a
}

// subject is the waitlists and their model.
type subject struct {
	*rapid.T

	f     fixture
	m     *model
	began time.Time // by Redis's clock
}

func (s subject) same(what string, want, got any) {
	s.Helper()
	tolerant := gocmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)}
	if d := gocmp.Diff(want, got, tolerant); d != "" {
		s.stalled()
		s.Fatalf("%s: -want +got\n%s", what, d)
	}
}

// stalled ends the case if it lasts so long that promoted tasks went back to their places. The model has no time.
func (s subject) stalled() {
	s.Helper()
	now, err := s.f.client.Time(s.Context()).Result()
	s.must(err)
	if now.Sub(s.began) >= waitlist.BeginWithin {
		s.Skip("the machine stalled")
	}
}

func (s subject) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

var (
	names  = rapid.SampledFrom([]string{"openai", "tenant:x", ""})
	queues = rapid.SampledFrom([]string{"default", "slow/er", waitlist.QueueCallers})
	anyone = rapid.Custom(func(t *rapid.T) waitlist.Task {
		return waitlist.Task{Queue: queues.Draw(t, "queue"), ID: rapid.StringMatching("[0-9]").Draw(t, "id")}
	})
	anyEntry = rapid.Custom(func(t *rapid.T) waitlist.Entry {
		return waitlist.Entry{
			Task: anyone.Draw(t, "task"), Bucket: names.Draw(t, "bucket"),
			Turns: class.Turns{
				Class:  rapid.SampledFrom([]string{"", "", "high"}).Draw(t, "class"),
				Tenant: rapid.SampledFrom([]string{"", "", "t1", "t2"}).Draw(t, "tenant"),
				Flow:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "flow"),
				Turn:   rapid.SampledFrom([]float64{0.25, 1, 3}).Draw(t, "turn"),
				Part:   rapid.SampledFrom([]float64{0.5, 1, 2}).Draw(t, "part"),
				Cost:   rapid.SampledFrom([]float64{0.1, 1, 1. / 3, 7}).Draw(t, "cost"),
			},
			Reserved: rapid.Bool().Draw(t, "reserved"), Answered: rapid.Bool().Draw(t, "answered"),
			Ready:  rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "ready"),
			Tokens: map[string]float64{"n": rapid.SampledFrom([]float64{0.1, 3, 1000}).Draw(t, "tokens")},
		}
	})
)

func (s subject) join(t *rapid.T) {
	all := rapid.SliceOfN(anyEntry, 1, 4).Draw(t, "entries")
	joined, err := s.f.Join(s.Context(), waitlist.Reported{}, all...)
	s.must(err)
	var promoted []waitlist.Task
	for _, e := range all {
		if s.m.join(e); e.Answered && e.Ready == 0 && s.m.waiting(e.Bucket) == 1 {
			s.m.promote(e.Bucket, e.Task)
			promoted = append(promoted, e.Task)
		}
	}
	s.same("promoted at once", promoted, joined.Promoted)
}

func (s subject) arrive(t *rapid.T) {
	all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) waitlist.Arrival {
		return waitlist.Arrival{
			Task: anyone.Draw(t, "task"), Buckets: rapid.SliceOfN(names, 0, 3).Draw(t, "buckets"),
		}
	}), 1, 4).Draw(t, "arrivals")
	found, err := s.f.Arrive(s.Context(), all)
	s.must(err)
	for i, a := range all {
		want := s.m.arrived(a.Task)
		for _, bucket := range a.Buckets {
			want.Waiting = append(want.Waiting, s.m.waiting(bucket))
		}
		s.same("arrived", want, found[i])
	}
}

// dispatch looks at all buckets. It promotes some of their heads, and some tasks that do not wait there.
func (s subject) dispatch(t *rapid.T) {
	var answers []waitlist.Answer
	for name := range s.m.buckets {
		answers = append(answers, waitlist.Answer{Bucket: name, Sooner: true})
	}
	s.must(s.f.Report(s.Context(), waitlist.Reported{Answers: answers}))
	me, paused := duty("me"), ""
	me.Heads, me.Lease = rapid.IntRange(1, 30).Draw(t, "heads"), time.Hour // a duty lasts for the whole case
	if rapid.Bool().Draw(t, "paused") {
		paused = queues.Draw(t, "queue")
	}
	look, err := s.f.Look(s.Context(), me, []string{paused})
	s.must(err)
	busy := slices.DeleteFunc(slices.Sorted(maps.Keys(s.m.buckets)), func(name string) bool { return !s.m.busy(name) })
	s.same("busy buckets", len(busy), len(look.Due))
	var plans []waitlist.Plan
	var want []waitlist.Task
	for _, due := range look.Due {
		s.compare(due, me.Heads, paused)
		plan := waitlist.Plan{Bucket: due.Bucket, Planned: due.Planned, Next: time.Hour}
		for _, h := range due.Heads[:rapid.IntRange(0, len(due.Heads)).Draw(t, "promoted")] {
			plan.Promote = append(plan.Promote, h.Task)
		}
		plan.Promote = append(plan.Promote, rapid.SliceOfN(anyone, 0, 1).Draw(t, "others")...)
		plans = append(plans, plan)
		for _, one := range plan.Promote {
			if k := s.m.tasks[one]; k != nil && k.bucket == due.Bucket && k.promoted == 0 {
				s.m.promote(due.Bucket, one)
				want = append(want, one)
			}
		}
	}
	got, onDuty, err := s.f.Promote(s.Context(), "me", plans)
	s.must(err)
	s.same("on duty", true, onDuty)
	s.same("promoted", want, got)
}

func (s subject) compare(due waitlist.Due, most int, paused string) {
	waits, promoted := s.m.in(due.Bucket)
	waits = slices.DeleteFunc(waits, func(t waitlist.Task) bool { return t.Queue == paused })
	s.same("more", len(waits) > most, due.More)
	waits = s.m.ordered(due.Bucket, waits)
	s.same("heads", waits[:min(most, len(waits))], tasksOf(due.Heads))
	s.same("promoted", promoted, tasksOf(due.Promoted))
	for _, w := range slices.Concat(due.Heads, due.Promoted) {
		k := s.m.tasks[w.Task]
		if math.Abs(k.entry.Tokens["n"]-w.Tokens["n"]) > 0 || k.reserved[due.Bucket] != w.Reserved {
			s.Fatalf("%+v, want %+v", w, *k)
		}
	}
}

func tasksOf(all []waitlist.Waiting) (found []waitlist.Task) {
	for _, w := range all {
		found = append(found, w.Task)
	}
	return found
}

func (s subject) begin(t *rapid.T) {
	all := rapid.SliceOfN(anyone, 1, 3).Draw(t, "tasks")
	s.must(s.f.Report(s.Context(), waitlist.Reported{Begun: all}))
	for _, one := range all {
		s.m.forget(one)
	}
}

func (s subject) leave(t *rapid.T) {
	all := rapid.SliceOfNDistinct(anyone, 1, 3, rapid.ID).Draw(t, "tasks")
	left, err := s.f.Leave(s.Context(), all)
	s.must(err)
	for i, one := range all {
		s.same("left", s.m.arrived(one), left[i])
		s.m.leave(one)
	}
}

// check compares all that the package can read with the model.
func (s subject) check(t *rapid.T) {
	s.f.pass(time.Millisecond) // promotions of one moment have no order
	s.m.rest()
	for name := range s.m.buckets {
		waits, promoted := s.m.in(name)
		l, err := s.f.List(s.Context(), name)
		s.must(err)
		s.same("waiting", len(waits), l.Waiting)
		s.same("promoted", len(promoted), l.Promoted)
		s.same("tokens", s.m.tokens(name), l.Tokens["n"])
		s.same("flows", s.m.flows(name), l.Flows)
		s.same("in the index", len(waits)+len(promoted) > 0, !l.Next.IsZero())
	}
	one := anyone.Draw(t, "task")
	want := s.m.arrived(one)
	p, err := s.f.Position(s.Context(), one)
	s.must(err)
	s.same("arrived", want, p.Arrived)
	if want.State == waitlist.StateWaiting {
		waits, _ := s.m.in(want.Bucket)
		waits = s.m.ordered(want.Bucket, waits)
		s.same("rank", 1+slices.Index(waits, one), p.Rank)
	}
}

// In memory a case takes less time than promoted tasks have to begin.
func TestTheScriptsAgreeWithAModel(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		seeded.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { // a bubble has no Deadline, for which rapid asks
			f.check(f.client.FlushDB(t.Context()).Err())
			now, err := f.client.Time(t.Context()).Result()
			f.check(err)
			s := subject{T: rt, f: f, began: now, m: &model{
				buckets: map[string]*bucketModel{}, tasks: map[waitlist.Task]*taskModel{},
			}}
			rt.Repeat(map[string]func(*rapid.T){
				"arrive": s.arrive, "join": s.join, "dispatch": s.dispatch, "begin": s.begin, "leave": s.leave, "": s.check,
			})
		})
	})
}
