package waitlist

import (
	"cmp"
	"context"
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
	// Retry is the time after which a promoted task that has not begun goes back to its place.
	Retry time.Duration
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

	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	// Since is when the task was promoted. It is zero for a waiting task.
	Since time.Time
}

// Look takes or renews the duty and returns the due buckets. Pass each of them to Promote, even if none of its tasks
// is promoted. Promoted tasks of a due bucket that did not begin within Duty.Retry are back in their list. Look skips
// tasks of the paused queues.
func (w *Waitlist) Look(ctx context.Context, duty Duty, paused []string) (Look, error) {
	args := []any{
		duty.ID, duty.Rest.Microseconds(), duty.Lease.Microseconds(), max(1, duty.Heads), max(1, duty.Promoted),
		duty.Retry.Microseconds(), dueMost, max(1, cmp.Or(duty.Few, duty.Heads)), len(paused),
	}
	for _, queue := range paused {
		args = append(args, url.PathEscape(queue))
	}
	for bucket := range duty.Some {
		args = append(args, bucket, duty.headsOf(bucket))
	}
	r := w.run(ctx, "look at the waitlists", w.scripts.look, args...)
	look := Look{Now: r.moment(), OnDuty: r.flag(), TookOver: r.flag(), Rest: r.duration()}
	buckets := r.count()
	look.Rung = r.rung()
	for range buckets {
		due := r.due()
		first, others := ordered(r.float(), r.lanes(), duty.headsOf(due.Bucket))
		for _, h := range first {
			due.Heads = append(due.Heads, h.Waiting)
		}
		due.More = others > 0
		look.Due = append(look.Due, due)
	}
	if r.err != nil {
		return Look{}, r.err
	}
	return look, nil
}

// OnDuty returns the ID of the process on duty as dispatcher, or "", and the end of its duty without another look.
func (w *Waitlist) OnDuty(ctx context.Context) (id string, until, now time.Time, err error) {
	r := w.run(ctx, "read the dispatcher", w.scripts.onDuty)
	now, id, until = r.moment(), r.text(), r.moment()
	return id, until, now, r.err
}

func (r *reply) due() Due {
	d := Due{
		Bucket: r.text(), Planned: r.int(), State: []byte(r.text()), Offset: r.duration(), Failed: r.flag(),
		PromotedCount: r.count(),
	}
	for _, h := range r.heads("") {
		d.Promoted = append(d.Promoted, h.Waiting)
	}
	return d
}

// lanes reads the answer of addLanes in the scripts, behind the latest start of a turn.
func (r *reply) lanes() (all []lane) {
	for range r.count() {
		l := lane{class: r.text(), ends: r.float(), count: r.count()}
		l.heads = r.heads(l.class)
		all = append(all, l)
	}
	return all
}

// heads reads tasks of a class from answers of addTask in the scripts.
func (r *reply) heads(class string) (tasks []head) {
	for range r.count() {
		if h, ok := r.head(class); ok {
			tasks = append(tasks, h)
		}
	}
	return tasks
}

// head reads one task. It is not ok if something else has put it there.
func (r *reply) head(class string) (h head, ok bool) {
	task, err := ParseTask(r.text())
	h.Task, h.class = task, class
	h.Tag, h.Tokens, h.Urgent, h.Reserved = r.float(), r.tokens(), r.flag(), r.flag()
	h.turn, h.Since = r.float(), r.moment()
	return h, err == nil
}
