package waitlist

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"time"
)

// dueMost is the largest number of buckets that one look returns.
const dueMost = 64

// Duty describes a process that is the dispatcher, or may become it.
type Duty struct {
	// ID is unique in the fleet.
	ID string
	// Rest is the longest time until the dispatcher looks again.
	Rest time.Duration
	// Lease is the time after its next look at which the dispatcher counts as dead. If no Promote follows a look at a
	// bucket, the bucket is due again after the lease.
	Lease time.Duration
	// Heads is the largest number of waiting tasks of a bucket that a look returns, Promoted that of promoted tasks.
	Heads, Promoted int
	// Few is the same as Heads for a bucket that has no number of its own in Some. Zero means Heads.
	Few  int
	Some map[string]int
}

// headsOf is the largest number of heads of the bucket that a look returns.
func (d Duty) headsOf(bucket string) int {
	n, ok := d.Some[bucket]
	if !ok {
		n = cmp.Or(d.Few, d.Heads)
	}
	return min(max(1, n), max(1, d.Heads))
}

// Look is the result of one look of the dispatcher.
type Look struct {
	// Now is the clock of Redis, as are all times of the package unless their comments name another clock.
	Now time.Time
	// OnDuty is true if the caller is the dispatcher. If it is false, Rest is the time until that may change, and Due
	// is empty.
	OnDuty bool
	// TookOver is true if the caller became the dispatcher with this look.
	TookOver bool
	// Rest is the time until the next look at a bucket that is not in Due. It is at most Duty.Rest.
	Rest time.Duration
	// Rung are tasks whose timers were due, at most Duty.Heads of them. Rest is zero if other timers are due.
	Rung []Rung
	// Due lists the buckets to plan now. They are at most 64, and the list ends after 2*(Duty.Heads+Duty.Promoted)
	// tasks. Rest is zero if other buckets are due.
	Due []Due
}

// Due is a bucket to plan now.
type Due struct {
	Bucket string
	// Planned identifies this look at the bucket. Promote needs it.
	Planned int64
	// State is from the last answer of the bucket. It is empty if there is none.
	State []byte
	// Offset is the store's clock less Redis's, as of the last answer.
	Offset time.Duration
	// Failed is true if the last request to the bucket failed.
	Failed bool
	// Promoted are the promoted tasks that have not begun, in the order of their promotion. PromotedCount counts all
	// of them, even beyond Duty.Promoted.
	Promoted      []Waiting
	PromotedCount int
	// Heads are the first waiting tasks of the queues that are not paused, in the order in which they start. More is
	// true if other tasks wait behind them.
	Heads []Waiting
	More  bool
}

// Waiting is a task that waits or is promoted.
type Waiting struct {
	Task

	Tokens           map[string]float64
	Urgent, Reserved bool
	// Since is when the task was promoted. It is zero for a waiting task.
	Since time.Time
}

// Look takes or renews the duty and returns the due buckets. Pass each of them to Promote, even if none of its tasks
// is promoted. Promoted tasks of a due bucket that did not begin within BeginWithin are back in their list. Look skips
// tasks of the paused queues.
func (w *Waitlist) Look(ctx context.Context, duty Duty, paused []string) (Look, error) {
	escaped := make([]string, len(paused))
	for i, queue := range paused {
		escaped[i] = url.PathEscape(queue)
	}
	some := map[string]int{}
	for bucket := range duty.Some {
		some[bucket] = duty.headsOf(bucket)
	}
	var answer struct {
		Now, Rest micros
		OnDuty    bool `json:"on_duty"`
		TookOver  bool `json:"took_over"`
		Rung      []string
		Due       []dueText
	}
	err := w.run(ctx, "look at the waitlists", w.scripts.look, args{
		"id": duty.ID, "rest": duty.Rest.Microseconds(), "lease": duty.Lease.Microseconds(), "due": dueMost,
		"heads": max(1, duty.Heads), "promoted": max(1, duty.Promoted), "few": max(1, cmp.Or(duty.Few, duty.Heads)),
		"some": some, "paused": escaped, "begin": BeginWithin.Microseconds(),
	}, &answer)
	if err != nil {
		return Look{}, err
	}
	look := Look{
		Now: answer.Now.moment(), OnDuty: answer.OnDuty, TookOver: answer.TookOver, Rest: answer.Rest.duration(),
		Rung: rung(answer.Rung),
	}
	for i := range answer.Due {
		look.Due = append(look.Due, answer.Due[i].due(duty.headsOf(answer.Due[i].Bucket)))
	}
	return look, nil
}

// OnDuty returns the ID of the process on duty as dispatcher, or "", and the end of its duty without another look.
func (w *Waitlist) OnDuty(ctx context.Context) (id string, until, now time.Time, err error) {
	var answer struct {
		ID         string
		Now, Until micros
	}
	err = w.read(ctx, "read the dispatcher", w.scripts.onDuty, args{}, &answer)
	return answer.ID, answer.Until.moment(), answer.Now.moment(), err
}

// dueText is one bucket in the answer of look.
type dueText struct {
	Bucket          string
	Planned, Offset micros
	State           string
	Failed          bool
	Promoted        []headText
	PromotedCount   int `json:"promoted_count"`
	Waiting         waitingText
}

func (d *dueText) due(most int) Due {
	due := Due{
		Bucket: d.Bucket, Planned: int64(d.Planned), State: []byte(d.State), Offset: d.Offset.duration(), Failed: d.Failed,
		PromotedCount: d.PromotedCount,
	}
	for _, h := range heads(d.Promoted) {
		due.Promoted = append(due.Promoted, h.Waiting)
	}
	first := ordered(d.Waiting.lanes())
	for _, h := range first[:min(most, len(first))] {
		due.Heads = append(due.Heads, h.Waiting)
	}
	due.More = d.Waiting.Waiting > len(due.Heads)
	return due
}

// waitingText is the answer of the function lanes in the scripts.
type waitingText struct {
	Virtual float64 `json:",string"`
	Waiting int
	Lanes   []laneText
}

type laneText struct {
	Queue  string
	Class  *string // nil for tasks that come back
	Tenant string
	// Ends is where the last turn of the class ended. Begins is where the next turn of the tenant does, and Virtual the
	// latest beginning of such a turn.
	Ends, Begins, Virtual float64 `json:",string"`
	Count                 int
	Heads                 []headText
}

func (w *waitingText) lanes() (virtual float64, all []lane) {
	for _, t := range w.Lanes {
		l := lane{tenant: t.Tenant, ends: t.Ends, begins: t.Begins, virtual: t.Virtual, count: t.Count, heads: heads(t.Heads)}
		if l.back = t.Class == nil; !l.back {
			l.class = *t.Class
		}
		for i := range l.heads {
			l.heads[i].class, l.heads[i].tenant = l.class, l.tenant
		}
		all = append(all, l)
	}
	return w.Virtual, all
}

// headText is the answer of the function shown in the scripts.
type headText struct {
	Task             string
	Tokens           string
	Urgent, Reserved bool
	Tag, Turn, Part  float64 `json:",string"`
	Back, Since      micros
	Flow             string // only in the answer of heads
}

func (t headText) head() (head, error) {
	task, err := ParseTask(t.Task)
	return head{
		Waiting: Waiting{
			Task: task, Tokens: tokens(t.Tokens), Urgent: t.Urgent, Reserved: t.Reserved, Since: t.Since.moment(),
		},
		tag: t.Tag, back: t.Back, turn: t.Turn, part: t.Part, flow: t.Flow,
	}, err
}

// tokens is a charge. It is empty where that can't be read: the dispatcher promotes the task, whose headers say what it
// takes.
func tokens(text string) (tokens map[string]float64) {
	if json.Unmarshal([]byte(text), &tokens) != nil {
		return nil
	}
	return tokens
}

// heads are the tasks of an answer, without ones of which something else has made the name.
func heads(texts []headText) (all []head) {
	for _, t := range texts {
		if h, err := t.head(); err == nil {
			all = append(all, h)
		}
	}
	return all
}
