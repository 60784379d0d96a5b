package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/deadletter"
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

// filter are the dead tasks that are looked for, the newest first.
func (d deadSearch) filter(now time.Time) (deadtasks.Filter, error) {
	f := deadtasks.Filter{ID: d.ID, Queue: d.Queue, Type: d.Type, Error: d.Error, Newest: true}
	if d.Since != "" {
		back, err := time.ParseDuration(d.Since)
		if err != nil || back < 0 {
			return f, &notFoundError{what: "The time must look like 1h or 24h."}
		}
		f.Since = now.Add(-back)
	}
	return f, nil
}

// Any says that the search leaves something out.
func (d deadSearch) Any() bool { return d != deadSearch{} }

// deadData is the page of dead tasks.
type deadData struct {
	Search deadSearch
	// Kept says that records are kept, in MongoDB. Without it the page lists asynq's archive.
	Kept  bool
	Total int
	Tasks []deadtasks.Task
	// Unreadable is how many records were passed over.
	Unreadable int
}

func (s *Server) deadPage(r *http.Request) (view, error) {
	d := deadData{Search: searchOf(r.URL.Query()), Kept: s.config.Dead != nil}
	v := view{Name: "dead", Title: "Dead tasks", Nav: "/dead"}
	if !d.Kept {
		err := s.archived(r.Context(), &d)
		v.Data = d
		return v, err
	}
	f, err := d.Search.filter(time.Now())
	if err == nil {
		d.Total, err = s.config.Dead.Count(r.Context(), f)
	}
	if err != nil {
		return v, err
	}
	for t, err := range s.config.Dead.List(r.Context(), f) {
		if errors.Is(err, deadtasks.ErrMalformed) {
			d.Unreadable++
			continue
		}
		if err != nil {
			return v, err
		}
		d.Tasks = append(d.Tasks, t)
		if len(d.Tasks) == deadShown {
			break
		}
	}
	v.Data = d
	return v, nil
}

// archived lists asynq's archive, which keeps 10 000 tasks of a queue: the first 1000 of each. A list of asynq has the
// payloads, so it is read in pages.
func (s *Server) archived(ctx context.Context, d *deadData) error {
	for _, q := range s.look(ctx).Queues {
		if q.Archived == 0 || d.Search.Queue != "" && d.Search.Queue != q.Queue {
			continue
		}
		for page := 1; page <= archivePages; page++ {
			found, err := s.inspector.ListArchivedTasks(q.Queue, asynq.PageSize(deadShown), asynq.Page(page))
			if err != nil {
				return fmt.Errorf("list the archive of queue %s: %w", q.Queue, err)
			}
			for _, t := range found {
				d.add(t)
			}
			if len(found) < deadShown || ctx.Err() != nil {
				break
			}
		}
	}
	return ctx.Err()
}

// add counts a task of the archive if it is looked for.
func (d *deadData) add(t *asynq.TaskInfo) {
	if (d.Search.ID != "" && d.Search.ID != t.ID) || (d.Search.Type != "" && d.Search.Type != t.Type) ||
		!strings.Contains(t.LastErr, d.Search.Error) {
		return
	}
	if d.Total++; len(d.Tasks) < deadShown {
		d.Tasks = append(d.Tasks, deadtasks.Task{
			ID: t.ID, Queue: t.Queue, Type: t.Type, Error: t.LastErr, At: t.LastFailedAt,
			Attempts: make([]deadletter.Attempt, t.Retried+1), // of which asynq keeps the number alone
		})
	}
}

// requeue requeues one task, or all that the form's search finds.
func (s *Server) requeue(r *http.Request) (string, error) {
	if s.config.Dead == nil {
		return "", &notFoundError{what: "MONGODB_URI is not set: there are no records to requeue tasks from."}
	}
	search := searchOf(r.PostForm)
	if search.ID == "" && r.PostFormValue("all") == "" {
		return "", &notFoundError{what: "Name a task to requeue."}
	}
	f, err := search.filter(time.Now())
	if err != nil {
		return "", err
	}
	f.Newest = false // the oldest first, as they were enqueued
	report, err := s.config.Dead.Requeue(r.Context(), s.config.Client, f, nil)
	if err != nil {
		return "", fmt.Errorf("%s requeued, then: %w. Do it again: no task is enqueued twice",
			count(report.Requeued, "task"), err)
	}
	to := "/dead"
	if r.PostFormValue("from") == "task" {
		to = taskLink(search.Queue, search.ID)
	}
	if report.Requeued == 0 {
		return back(to, "left", 0), nil
	}
	return back(to, "requeued", report.Requeued), nil
}

// firstLine is the first line of a text, as a list shows it.
func firstLine(text string) string { return cli.FirstLine(text, lineShown, "…") }
