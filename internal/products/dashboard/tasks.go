package dashboard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// What one view of a list of tasks reads at most. Neither depends on how long the backlog is.
const (
	// tasksShown is how many tasks a list shows.
	tasksShown = 50
	// explainedMost is how many tasks are explained to find these.
	explainedMost = 150
	// readMost is how many tasks of the lists of asynq are read, readAtOnce how many together.
	readMost, readAtOnce = 1000, 100
	// waitlistsRead is how many waitlists are read, headsRead how many of the first tasks of each.
	waitlistsRead, headsRead = 8, 200
	// explainedTogether is how many tasks are explained at the same time.
	explainedTogether = 8
)

// The states of tasks, in the words of asynq and of `headway explain`: the first four are of tasks that have not ended.
var (
	waitingStates = []string{"scheduled", "retry"}                            //nolint:gochecknoglobals // never changed
	openStates    = append([]string{"active", "pending"}, waitingStates...)   //nolint:gochecknoglobals // never changed
	taskStates    = append(slices.Clone(openStates), "archived", "completed") //nolint:gochecknoglobals // never changed
)

// taskSearch is what a list of tasks is of, as its form has it. An empty field leaves nothing out.
type taskSearch struct {
	Limit, Flow, Queue, State, Type, Batch, Reason string
}

func taskSearchOf(q url.Values) taskSearch {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return taskSearch{
		Limit: text("limit"), Flow: text("flow"), Queue: text("queue"), State: text("state"), Type: text("type"),
		Batch: text("batch"), Reason: text("reason"),
	}
}

// Any says that the search leaves something out.
func (s taskSearch) Any() bool { return s != taskSearch{} }

// validate names a state or a reason that there is not.
func (s taskSearch) validate() error {
	if s.State != "" && !slices.Contains(taskStates, s.State) {
		return &notFoundError{what: "There is no state " + s.State + ": it is one of " + strings.Join(taskStates, ", ") + "."}
	}
	if s.Reason != "" && titleOf(scheduler.Reason(s.Reason)) == "" {
		return &notFoundError{what: "There is no reason " + s.Reason + "."}
	}
	return nil
}

// states are the states in which tasks are looked for. Ended tasks are looked for by their state or reason alone.
func (s taskSearch) states() []string {
	if s.State != "" {
		return []string{s.State}
	}
	switch scheduler.Reason(s.Reason) { //nolint:exhaustive // all others are of tasks that wait
	case "":
		return openStates
	case scheduler.ReasonReady, scheduler.ReasonPaused, scheduler.ReasonUnserved:
		return []string{"pending"}
	case scheduler.ReasonRunning, scheduler.ReasonOrphaned:
		return []string{"active"}
	case scheduler.ReasonArchived:
		return []string{"archived"}
	case scheduler.ReasonCompleted:
		return []string{"completed"}
	default:
		return openStates
	}
}

// takes says whether a charge is of the limit, or of the one bucket of it, and of the flow.
func (s taskSearch) takes(charges []reservations.Charge) bool {
	return s.Limit == "" && s.Flow == "" || slices.ContainsFunc(charges, func(c reservations.Charge) bool {
		flow := waitlist.FlowName(reservations.TenantOf(charges, c.Limit), c.Flow)
		return (s.Limit == "" || s.Limit == c.Limit || s.Limit == c.Bucket().String()) && (s.Flow == "" || s.Flow == flow)
	})
}

// holds says whether a task is looked for, as far as asynq's message says.
func (s taskSearch) holds(t *asynq.TaskInfo) bool {
	if s.Type != "" && s.Type != t.Type || s.Batch != "" && batchOf(t) != s.Batch {
		return false
	}
	if s.Limit == "" && s.Flow == "" {
		return true
	}
	charges, _ := envelope.Charges(asynq.NewTaskWithHeaders(t.Type, t.Payload, t.Headers)) // unreadable ones take nothing
	return s.takes(charges)
}

// batchOf is the batch whose request a task is; empty for another task.
func batchOf(t *asynq.TaskInfo) string {
	q, _ := chat.Request(t.Type, t.Payload)
	return q.Ref.Batch
}

// found says whether an explained task is looked for.
func (s taskSearch) found(e *explained.Task) bool {
	return (s.State == "" || s.State == e.State) && (s.Type == "" || s.Type == e.Type) &&
		(s.Reason == "" || s.Reason == string(e.Reason))
}

// link is the list of the tasks of a search.
func (s taskSearch) link() string {
	q := url.Values{}
	for name, value := range map[string]string{
		"limit": s.Limit, "flow": s.Flow, "queue": s.Queue, "state": s.State, "type": s.Type, "batch": s.Batch,
		"reason": s.Reason,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return "task?" + q.Encode()
}

// taskRow is a task of a list. Why is what `headway explain` says of it.
type taskRow struct {
	ID, Queue, Type, State, Why string
}

// taskList are the first tasks that a search finds.
type taskList struct {
	Search taskSearch
	Rows   []taskRow
	// Cut says why there may be others; empty if these are all.
	Cut string
}

// tasks lists tasks: waitlists give them in the order in which they start.
func (s *Server) tasks(ctx context.Context, search taskSearch) (taskList, error) {
	list := taskList{Search: search}
	if err := search.validate(); err != nil {
		return list, err
	}
	f := s.look(ctx)
	if err := f.unread(state.PartQueues, len(f.Queues)); err != nil {
		return list, err
	}
	of := &lister{server: s, fleet: f, search: search, seen: map[waitlist.Task]bool{}}
	var some []waitlist.Task
	flush := func() error {
		rows, err := of.explain(ctx, some)
		list.Rows, some = append(list.Rows, rows...), some[:0]
		return err
	}
	for t := range of.candidates(ctx) {
		if len(list.Rows) >= tasksShown || of.explained+len(some) >= explainedMost {
			of.cut = true
			break
		}
		if some = append(some, t); len(list.Rows)+len(some) < tasksShown {
			continue
		}
		if err := flush(); err != nil {
			return list, err
		}
	}
	if err := errors.Join(of.err, flush()); err != nil {
		return list, err
	}
	list.Rows = list.Rows[:min(len(list.Rows), tasksShown)]
	switch {
	case of.cut && len(list.Rows) == tasksShown:
		list.Cut = fmt.Sprintf("The first %d are shown, and there may be others.", tasksShown)
	case of.cut:
		list.Cut = "Only the beginning of the backlog was searched: there may be others."
	}
	return list, nil
}

// lister looks for the tasks of a search.
type lister struct {
	server *Server
	fleet  fleet
	search taskSearch

	seen      map[waitlist.Task]bool
	read      int  // tasks of asynq's lists
	explained int  // tasks
	cut       bool // not all that there is was read
	err       error
}

// candidates are the tasks that may be found, each once.
func (l *lister) candidates(ctx context.Context) iter.Seq[waitlist.Task] {
	return func(yield func(waitlist.Task) bool) {
		once := func(t waitlist.Task) bool {
			if l.seen[t] {
				return true
			}
			l.seen[t] = true
			return yield(t)
		}
		placed := l.search.Limit + l.search.Flow + l.search.Batch
		for _, name := range l.search.states() {
			if name == waitingStates[0] && placed != "" && !l.waiting(ctx, once) {
				return
			}
			for _, q := range l.fleet.Queues {
				if l.search.Queue != "" && l.search.Queue != q.Queue {
					continue
				}
				if !l.queued(ctx, q, name, once) {
					return
				}
			}
		}
	}
}

// waiting yields tasks of waitlists.
func (l *lister) waiting(ctx context.Context, yield func(waitlist.Task) bool) bool {
	names, reader := l.waitlists(ctx), l.server.config.Reader
	if l.cut = l.cut || len(names) > waitlistsRead; l.cut {
		names = names[:min(len(names), waitlistsRead)]
	}
	for _, name := range names {
		first, more, err := inside.Of(reader.Scheduler).Heads(ctx, name, headsRead)
		if err != nil {
			l.err = err
			return false
		}
		l.cut = l.cut || more
		for _, h := range first {
			ref, _ := batchref.Parse(h.ID)
			t := h.Task
			switch {
			case l.search.Queue != "" && l.search.Queue != h.Queue, l.search.Batch != "" && l.search.Batch != ref.Batch,
				l.search.Flow != "" && !h.Promoted && l.search.Flow != h.Flow:
				l.seen[t] = true
			case h.Promoted && l.search.Flow != "": // its charges say of which flow it is
			case !yield(t):
				return false
			}
		}
	}
	return true
}

// waitlists are the names of the waitlists in which tasks of the search may wait.
func (l *lister) waitlists(ctx context.Context) (names []string) {
	limits := []string{l.search.Limit}
	if l.search.Batch != "" && l.search.Limit == "" && l.server.config.Batches != nil {
		if b, err := l.server.config.Batches.Batch(ctx, l.search.Batch); err == nil {
			limits = b.Limits()
		}
	}
	for _, b := range l.fleet.Buckets() {
		wanted := slices.ContainsFunc(limits, func(name string) bool {
			return name == "" || name == b.Limit || name == b.Bucket
		})
		if !wanted || b.Waiting+b.Promoted == 0 {
			continue
		}
		if len(b.Shards) == 0 {
			names = append(names, b.Bucket)
		}
		for _, shard := range b.Shards {
			names = append(names, shard.Bucket)
		}
	}
	if names == nil && strings.Contains(l.search.Limit, ":") { // the look at the fleet may not have come so far
		return []string{l.search.Limit}
	}
	return names
}

// queued yields the tasks of a queue in one state.
func (l *lister) queued(ctx context.Context, q *asynq.QueueInfo, name string, yield func(waitlist.Task) bool) bool {
	of := l.server.listOf(q, name)
	for page := 1; of.tasks > (page-1)*readAtOnce; page++ {
		if l.read >= readMost {
			l.cut = true
			return true
		}
		if l.err = ctx.Err(); l.err != nil { // asynq's inspector takes no context
			return false
		}
		found, err := of.list(q.Queue, asynq.PageSize(readAtOnce), asynq.Page(page))
		if err != nil {
			l.err = fmt.Errorf("list the tasks of queue %s: %w", q.Queue, err)
			return false
		}
		l.read += len(found)
		for _, t := range found {
			if l.search.holds(t) && !yield(waitlist.Task{Queue: t.Queue, ID: t.ID}) {
				return false
			}
		}
		if len(found) < readAtOnce {
			return true
		}
	}
	return true
}

// asynqList is a list of asynq, with how many tasks are in it.
type asynqList struct {
	tasks int
	list  func(queue string, o ...asynq.ListOption) ([]*asynq.TaskInfo, error)
}

// listOf is the list of a state.
func (s *Server) listOf(q *asynq.QueueInfo, name string) asynqList {
	return map[string]asynqList{
		"active":    {q.Active, s.inspector.ListActiveTasks},
		"pending":   {q.Pending, s.inspector.ListPendingTasks},
		"retry":     {q.Retry, s.inspector.ListRetryTasks},
		"scheduled": {q.Scheduled, s.inspector.ListScheduledTasks},
		"archived":  {q.Archived, s.inspector.ListArchivedTasks},
		"completed": {q.Completed, s.inspector.ListCompletedTasks},
	}[name]
}

// explain returns the rows of the tasks that are looked for. A task that has ended meanwhile has none.
func (l *lister) explain(ctx context.Context, some []waitlist.Task) ([]taskRow, error) {
	l.explained += len(some)
	all := make([]*taskRow, len(some))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(explainedTogether)
	for i, t := range some {
		group.Go(func() error {
			e, err := l.server.config.Reader.Scheduler.Explain(ctx, t.Queue, t.ID)
			if errors.Is(err, asynq.ErrTaskNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			task := explained.New(e)
			if l.search.found(&task) {
				why := strings.TrimPrefix(task.Summary, "Task "+t.ID+" ")
				all[i] = &taskRow{ID: t.ID, Queue: t.Queue, Type: task.Type, State: task.State, Why: why}
			}
			return nil
		})
	}
	err := group.Wait()
	var rows []taskRow
	for _, r := range all {
		if r != nil {
			rows = append(rows, *r)
		}
	}
	return rows, err
}
