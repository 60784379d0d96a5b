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

	"github.com/headway-go/headway/internal/waitlist"
)

// model is the waitlists in plain Go. It shares nothing with the scripts: it computes counts, sums and ranks from the
// tasks each time, and forgets flows only when a bucket is idle.
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
	inner, outer float64
	ends         map[string]float64
}

type taskModel struct {
	bucket   string
	promoted int // zero for a waiting task
	tokens   float64
	flow     string
	given    float64
	tags     map[string]float64
	turns    map[string]float64
	classes  map[string]string
	reserved map[string]bool
}

func (m *model) waiting(bucket string) int {
	waits, _ := m.in(bucket)
	return len(waits)
}

// next returns the tag of a new task.
func (b *bucketModel) next(e waitlist.Entry) float64 {
	c := b.class(e.Class)
	tag := max(c.inner, c.ends[e.Flow])
	c.ends[e.Flow] = tag + e.Cost
	return tag
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
		b.classes[name] = &classModel{ends: map[string]float64{}}
	}
	return b.classes[name]
}

// ordered takes the waiting tasks of a bucket in order of their tags, and returns them in the order of the turns of
// their classes.
func (m *model) ordered(bucket string, waits []waitlist.Task) (all []waitlist.Task) {
	b, ends := m.bucket(bucket), map[string]float64{}
	for len(waits) > 0 {
		best, begins, seen := -1, 0., map[string]bool{}
		for i, t := range waits {
			k := m.tasks[t]
			class := k.classes[bucket]
			if seen[class] {
				continue
			}
			seen[class] = true
			at := max(ends[class], b.virtual, b.class(class).outer)
			if k.turns[bucket] == 0 {
				at = -1
			}
			if best < 0 || at < begins || at == begins && class < m.tasks[waits[best]].classes[bucket] {
				best, begins = i, at
			}
		}
		t := waits[best]
		k := m.tasks[t]
		class := k.classes[bucket]
		ends[class] = max(ends[class], b.virtual, b.class(class).outer) + k.turns[bucket]
		all, waits = append(all, t), slices.Delete(waits, best, best+1)
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
			sum += k.tokens
		}
	}
	return sum
}

// flows returns the named flows, the largest first.
func (m *model) flows(bucket string) (all []waitlist.Flow) {
	tasks := map[string]int{}
	for _, k := range m.tasks {
		if k.bucket == bucket && k.flow != "" {
			tasks[k.flow]++
		}
	}
	for name, n := range tasks {
		all = append(all, waitlist.Flow{Flow: name, Tasks: n})
	}
	slices.SortFunc(all, func(a, b waitlist.Flow) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(b.Flow, a.Flow))
	})
	return all
}

// rest resets buckets that have become idle.
func (m *model) rest() {
	for name, b := range m.buckets {
		if !m.busy(name) {
			for _, c := range b.classes {
				for _, end := range c.ends {
					c.inner = max(c.inner, end)
				}
				clear(c.ends)
				c.outer = 0
			}
			b.virtual = 0
		}
	}
}

func (m *model) join(e waitlist.Entry) {
	k := m.tasks[e.Task]
	if k == nil {
		k = &taskModel{
			tags: map[string]float64{}, turns: map[string]float64{}, classes: map[string]string{}, reserved: map[string]bool{},
		}
		m.tasks[e.Task] = k
	}
	if _, has := k.tags[e.Bucket]; !has {
		k.tags[e.Bucket], k.turns[e.Bucket], k.classes[e.Bucket] = m.bucket(e.Bucket).next(e), e.Turn, e.Class
	}
	k.flow, k.given = e.Flow, e.Cost
	k.bucket, k.promoted, k.tokens, k.reserved[e.Bucket] = e.Bucket, 0, e.Tokens["n"], e.Reserved
}

// giveBack forgets the flow of a task that left, if it has no other tasks. Otherwise it moves the end of a caller's
// flow back.
func (m *model) giveBack(t waitlist.Task) {
	k := m.tasks[t]
	m.forget(t)
	if k == nil {
		return
	}
	ends := m.bucket(k.bucket).class(k.classes[k.bucket]).ends
	for _, other := range m.tasks {
		if other.bucket == k.bucket && other.flow == k.flow {
			if end, moved := ends[k.flow]; moved && t.Queue == waitlist.QueueCallers {
				ends[k.flow] = end - k.given
			}
			return
		}
	}
	delete(ends, k.flow)
}

func (m *model) forget(t waitlist.Task) { delete(m.tasks, t) }

func (m *model) promote(bucket string, t waitlist.Task) {
	m.moment++
	k, b := m.tasks[t], m.bucket(bucket)
	c := b.class(k.classes[bucket])
	k.promoted, c.inner = m.moment, max(c.inner, k.tags[bucket])
	if k.turns[bucket] > 0 {
		b.virtual = max(b.virtual, c.outer)
		c.outer, k.turns[bucket] = b.virtual+k.turns[bucket], 0
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

	f fixture
	m *model
}

func (s subject) same(what string, want, got any) {
	s.Helper()
	tolerant := gocmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)}
	if d := gocmp.Diff(want, got, tolerant); d != "" {
		s.Fatalf("%s: -want +got\n%s", what, d)
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
			Flow:  rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "flow"),
			Class: rapid.SampledFrom([]string{"", "", "high"}).Draw(t, "class"),
			Turn:  rapid.SampledFrom([]float64{0.25, 1, 3}).Draw(t, "turn"),
			Cost:  rapid.SampledFrom([]float64{0.1, 1, 1. / 3, 7}).Draw(t, "cost"), Reserved: rapid.Bool().Draw(t, "reserved"),
			Answered: rapid.Bool().Draw(t, "answered"),
			Ready:    rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "ready"),
			Tokens:   map[string]float64{"n": rapid.SampledFrom([]float64{0.1, 3, 1000}).Draw(t, "tokens")},
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
	me.Heads = rapid.IntRange(1, 30).Draw(t, "heads")
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
		if k.tags[due.Bucket] != w.Tag || math.Abs(k.tokens-w.Tokens["n"]) > 0 || k.reserved[due.Bucket] != w.Reserved {
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
		s.m.giveBack(one)
	}
}

// check compares all that the package can read with the model.
func (s subject) check(t *rapid.T) {
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

func TestTheScriptsAgreeWithAModel(t *testing.T) {
	t.Parallel()
	f := onRedis(t)
	rapid.Check(t, func(rt *rapid.T) {
		f.check(f.client.FlushDB(t.Context()).Err())
		s := subject{T: rt, f: f, m: &model{
			buckets: map[string]*bucketModel{}, tasks: map[waitlist.Task]*taskModel{},
		}}
		rt.Repeat(map[string]func(*rapid.T){
			"arrive": s.arrive, "join": s.join, "dispatch": s.dispatch, "begin": s.begin, "leave": s.leave, "": s.check,
		})
	})
}
