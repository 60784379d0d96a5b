package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
)

const (
	// deadShown is how many dead tasks a page lists.
	deadShown = 100
	// archivePages is how many pages of that size of asynq's archive are searched.
	archivePages = 10
	// lineShown is how many letters of an error a line has.
	lineShown = 160
)

// deadSearch is what a reader looks for, as the form has it.
type deadSearch struct {
	ID, Queue, Type, Error, Since string
}

func searchOf(q url.Values) deadSearch {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return deadSearch{ID: text("id"), Queue: text("queue"), Type: text("type"), Error: text("error"), Since: text("since")}
}

// filter are the dead tasks that are looked for.
func (d deadSearch) filter() (deadtasks.Filter, error) {
	f := deadtasks.Filter{ID: d.ID, Queue: d.Queue, Type: d.Type, Error: d.Error}
	if d.Since != "" {
		back, err := time.ParseDuration(d.Since)
		if err != nil || back < 0 {
			return f, &notFoundError{what: "The time must look like 1h or 24h."}
		}
		f.Since = time.Now().Add(-back)
	}
	return f, nil
}

// Any says that the search leaves something out.
func (d deadSearch) Any() bool { return d != deadSearch{} }

// deadData is the page of dead tasks.
type deadData struct {
	Search deadSearch
	// Kept says that the page has the records. Without it the page lists asynq's archive.
	Kept  bool
	Total int
	Tasks []deadtasks.Task
	// Requeue sends a task of the list again.
	Requeue func(deadtasks.Task) action
	// Unreadable is how many records were passed over.
	Unreadable int
}

func (s *Server) deadPage(r *http.Request) (view, error) {
	d := deadData{Search: searchOf(r.URL.Query()), Kept: s.config.Dead != nil}
	d.Requeue = func(t deadtasks.Task) action { return requeueing(t.Queue, t.ID, "") }
	f, err := d.Search.filter()
	switch {
	case err != nil:
	case d.Kept:
		err = s.recorded(r.Context(), f, &d)
	default:
		err = s.archived(r.Context(), f, &d)
	}
	return view{Name: "dead", Title: "Dead tasks", Nav: "/dead", Data: d}, err
}

// recorded lists records, the newest first.
func (s *Server) recorded(ctx context.Context, f deadtasks.Filter, d *deadData) (err error) {
	f.Newest = true
	if d.Total, err = s.config.Dead.Count(ctx, f); err != nil {
		return err
	}
	for t, err := range s.config.Dead.List(ctx, f) {
		if errors.Is(err, deadtasks.ErrMalformed) {
			d.Unreadable++
			continue
		}
		if err != nil {
			return err
		}
		if d.Tasks = append(d.Tasks, t); len(d.Tasks) == deadShown {
			break
		}
	}
	return nil
}

// archived lists asynq's archive, which keeps 10 000 tasks of a queue. A search reads the first 1000 of each queue. A
// list of asynq has the payloads, so it is read in pages, and without a search no further than the page shows.
func (s *Server) archived(ctx context.Context, f deadtasks.Filter, d *deadData) error {
	search := d.Search.Any()
	look := s.look(ctx)
	for _, q := range look.Queues {
		if q.Archived == 0 || f.Queue != "" && f.Queue != q.Queue {
			continue
		}
		if !search {
			d.Total += q.Archived
		}
		for page := 1; page <= archivePages && (search || len(d.Tasks) < deadShown) && ctx.Err() == nil; page++ {
			found, err := s.inspector.ListArchivedTasks(q.Queue, asynq.PageSize(deadShown), asynq.Page(page))
			if err != nil {
				return fmt.Errorf("list the archive of queue %s: %w", q.Queue, err)
			}
			for _, t := range found {
				if !matches(f, t) {
					continue
				}
				if search {
					d.Total++
				}
				if len(d.Tasks) < deadShown {
					d.Tasks = append(d.Tasks, deadtasks.Task{
						ID: t.ID, Queue: t.Queue, Type: t.Type, Error: t.LastErr, At: t.LastFailedAt,
						Attempts: make([]deadletter.Attempt, t.Retried+1), // of which asynq keeps the number alone
					})
				}
			}
			if len(found) < deadShown {
				break
			}
		}
	}
	return cmp.Or(ctx.Err(), look.unread(state.PartQueues, len(look.Queues)))
}

// matches says whether a task of the archive is looked for.
func matches(f deadtasks.Filter, t *asynq.TaskInfo) bool {
	return (f.ID == "" || f.ID == t.ID) && (f.Type == "" || f.Type == t.Type) &&
		strings.Contains(t.LastErr, f.Error) && !t.LastFailedAt.Before(f.Since)
}

// requeue requeues one task, or all that the form's search finds.
func (s *Server) requeue(r *http.Request) (string, error) {
	if s.config.Dead == nil {
		return "", &notFoundError{what: "This page has no records to requeue tasks from."}
	}
	search := searchOf(r.PostForm)
	if search.ID == "" && r.PostFormValue("all") == "" {
		return "", &notFoundError{what: "Name a task to requeue."}
	}
	f, err := search.filter()
	if err != nil {
		return "", err
	}
	report, err := s.config.Dead.Requeue(r.Context(), s.config.Client, f, nil)
	if err != nil {
		return "", fmt.Errorf("%s requeued, then: %w. Do it again: no task is enqueued twice",
			count(report.Requeued, "task"), err)
	}
	to := "dead"
	if r.PostFormValue("from") == "task" {
		to = taskLink(search.Queue, search.ID)
	}
	if report.Requeued == 0 {
		return back(to, "left", 0), nil
	}
	return back(to, "requeued", report.Requeued), nil
}

// delete deletes a task that waits, or a dead one with its record. Tasks that run or have ended stay.
func (s *Server) delete(r *http.Request) (string, error) {
	queue, id := r.PostFormValue("queue"), r.PostFormValue("id")
	if queue == "" || id == "" {
		return "", &notFoundError{what: "Name a task to delete, and its queue."}
	}
	deleted, err := s.config.Reader.Scheduler.Delete(r.Context(), queue, id)
	if err != nil || deleted[0] != nil {
		return back("queue?name="+url.QueryEscape(queue), "deleted", 1), err
	}
	if s.config.Dead == nil {
		return back(taskLink(queue, id), "kept", 0), nil
	}
	records, err := explained.Records(r.Context(), s.config.Dead, queue, id)
	for _, t := range records {
		if err = s.config.Dead.Delete(r.Context(), s.config.Client, t); err == nil {
			return back("dead", "deleted", 1), nil
		}
	}
	if errors.Is(err, deadtasks.ErrNotFound) {
		err = nil
	}
	return back(taskLink(queue, id), "kept", 0), err
}

// firstLine is the first line of a text, as a list shows it.
func firstLine(text string) string { return cli.FirstLine(text, lineShown, "…") }
