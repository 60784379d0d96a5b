package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/scheduler"
)

// bodyShown is how many bytes of a payload or a result are shown.
const bodyShown = 16_000

// taskData is the page of one task: where it is, why, and what happened.
type taskData struct {
	// ID and Queue are what was looked for. Both are empty where the page only asks.
	ID, Queue string
	// Found are the tasks with this ID, one for each queue.
	Found []taskView
	// List are the tasks that a search finds, where no ID is looked for.
	List taskList
}

// taskView is one task. Explained is nil where asynq has forgotten it, Record where it never failed.
type taskView struct {
	ID, Queue, Type string
	Summary         string
	Explained       *explained.Task
	Rows            [][]string
	Bucket          *bucketView
	Record          *deadtasks.Task
	Steps           []step
	Payload, Result string
	Batch           string
	Answer          *answerView // nil without a stored result of its batch
	// Dead says that it can be requeued.
	Dead    bool
	Actions []action
}

// step is something that happened to a task, or will.
type step struct {
	At    time.Time
	Title string
	Text  string
	Kind  string // bad, good, now, later, or empty
}

func (s *Server) taskPage(r *http.Request) (view, error) {
	q := r.URL.Query()
	d := taskData{ID: strings.TrimSpace(q.Get("id")), Queue: strings.TrimSpace(q.Get("queue"))}
	v := view{Name: "task", Title: "Tasks", Nav: "/task"}
	var err error
	if d.ID == "" {
		d.List, err = s.tasks(r.Context(), taskSearchOf(q))
	} else {
		v.Title = "Task " + d.ID
		d.Found, err = s.findTask(r.Context(), d.Queue, d.ID)
	}
	v.Data = d
	return v, err
}

// findTask reads all that is known of a task, in one queue or in all.
func (s *Server) findTask(ctx context.Context, queue, id string) ([]taskView, error) {
	var records []deadtasks.Task
	if s.config.Dead != nil {
		var err error
		records, err = explained.Records(ctx, s.config.Dead, queue, id)
		if err != nil && !errors.Is(err, deadtasks.ErrMalformed) { // what asynq has of the task is shown all the same
			return nil, err
		}
	}
	found, err := s.queued(ctx, queue, id)
	if err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		return nil, err
	}
	for _, record := range records {
		i := slices.IndexFunc(found, func(v taskView) bool { return v.Queue == record.Queue })
		if i < 0 {
			i = len(found)
			found = append(found, taskView{
				ID: record.ID, Queue: record.Queue, Type: record.Type, Payload: s.body(record.Payload),
				Summary: "Task " + record.ID + " " + explained.Record(record) + ".",
			})
		}
		found[i].Record, found[i].Batch = &record, cmp.Or(record.Batch, found[i].Batch)
		found[i].Dead = record.State == deadtasks.StateDead || record.State == deadtasks.StateRequeueing
	}
	found, failed := s.answer(ctx, found, queue, id)
	if failed != nil {
		return nil, failed
	}
	if len(found) == 0 {
		return nil, err
	}
	for i := range found {
		found[i].Steps = steps(found[i])
		found[i].Actions = s.offer(taskActions(found[i])...)
	}
	return found, nil
}

// queued reads what asynq and the waitlists have of a task. The error matches asynq.ErrTaskNotFound where they have
// nothing.
func (s *Server) queued(ctx context.Context, queue, id string) (found []taskView, err error) {
	queues, err := asynqdb.New(s.config.Client).QueuesOf(ctx, queue, id)
	if err != nil {
		return nil, err
	}
	for _, in := range queues {
		e, failed := explained.Read(ctx, s.config.Reader, in, id)
		if errors.Is(failed, asynq.ErrTaskNotFound) {
			err = failed
			continue
		}
		if failed != nil {
			return nil, failed
		}
		v := taskView{ID: id, Queue: in, Type: e.Type, Summary: e.Summary, Explained: &e, Rows: e.Rows()[1:]}
		if e.Bucket != nil {
			b := newBucketView(*e.Bucket)
			v.Bucket = &b
		}
		if info, failed := s.inspector.GetTaskInfo(in, id); failed == nil {
			v.Payload, v.Result = s.body(info.Payload), s.body(info.Result)
			if q, is := chat.Request(info.Type, info.Payload); is {
				v.Batch = q.Ref.Batch
			}
		}
		found = append(found, v)
	}
	return found, err
}

// taskActions are for a task that is dead or waits. A request of a batch is changed with its batch.
func taskActions(v taskView) []action {
	switch {
	case v.Batch != "":
	case v.Dead:
		return []action{requeueing(v.Queue, v.ID, "task"), deleting(v.Queue, v.ID, true)}
	case v.Explained != nil && slices.Contains([]string{"pending", "scheduled", "retry"}, v.Explained.State):
		return []action{deleting(v.Queue, v.ID, false)}
	}
	return nil
}

// steps are what happened to a task in the order of time, then what is expected.
func steps(v taskView) []step {
	var all []step
	if t := v.Record; t != nil {
		for _, a := range t.Attempts {
			text := "after " + duration(a.Elapsed)
			if a.Worker != "" {
				text += " on " + a.Worker
			}
			all = append(all, step{
				At: a.At, Kind: "bad", Title: fmt.Sprintf("Attempt %d failed", a.Number), Text: text + ": " + a.Error,
			})
		}
		for _, at := range t.Requeues {
			all = append(all, step{At: at, Title: "Requeued", Text: "with all its retries"})
		}
		if v.Dead {
			all = append(all, step{At: t.At, Kind: "bad", Title: "Died", Text: string(t.Cause)})
		}
	}
	slices.SortStableFunc(all, func(a, b step) int { return a.At.Compare(b.At) })
	e := v.Explained
	if e == nil {
		return all
	}
	if !v.Dead {
		kind := "now"
		if e.Reason == scheduler.ReasonCompleted {
			kind = "good"
		}
		all = append(all, step{At: e.Since, Kind: kind, Title: titleOf(e.Reason), Text: stepText(e)})
	}
	if e.Until.After(e.Now) {
		all = append(all, step{At: e.Until, Kind: "later", Title: "Expected to go on"})
	}
	return all
}

// stepText is what the present state rests on.
func stepText(e *explained.Task) string {
	switch {
	case e.Waits != nil && e.Waits.Position > 0:
		return fmt.Sprintf("number %d of %d in the waitlist of %s", e.Waits.Position, e.Waits.Of, e.Waits.Bucket)
	case e.Worker != "":
		return "on " + e.Worker
	case e.Reason == scheduler.ReasonReady && e.Before >= 0:
		return count(e.Before, "task") + " before it"
	default:
		return ""
	}
}

// indented returns valid JSON with indents, and ends soon behind that many bytes. Nested lists of a megabyte would have
// gigabytes of indents.
func indented(valid []byte, most int) string {
	var lines bytes.Buffer
	_ = json.Indent(&lines, bytes.TrimSpace(valid), "", "") // valid
	var b strings.Builder
	depth := 0
	for line := range strings.Lines(lines.String()) {
		if b.Len() > most {
			break
		}
		if line[0] == ']' || line[0] == '}' {
			depth--
		}
		b.WriteString(strings.Repeat("  ", depth) + line)
		if end := strings.TrimSuffix(line, "\n"); end[len(end)-1] == '[' || end[len(end)-1] == '{' {
			depth++
		}
	}
	return b.String()
}

// body is a payload as text: JSON with indents, other text as it is, and bytes as base64. Secrets are taken out before
// anything is escaped twice.
func (s *Server) body(payload []byte) string {
	if len(payload) == 0 {
		return ""
	}
	payload = s.config.Secrets.Bytes(bytes.Clone(payload))
	text := string(payload[:min(len(payload), 2*bodyShown)])
	switch {
	case json.Valid(payload):
		text = indented(payload, bodyShown)
	case !utf8.Valid(payload):
		text = "base64: " + base64.StdEncoding.EncodeToString(payload[:min(len(payload), bodyShown)])
	}
	if len(text) > bodyShown {
		text = strings.ToValidUTF8(text[:bodyShown], "") + fmt.Sprintf("\n… %d bytes in all", len(payload))
	}
	return text
}
