package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/overview"
)

// tasksShown is how many tasks of each state the page of a queue lists.
const tasksShown = 50

// queueView is a queue with the workers that take from it.
type queueView struct {
	overview.Queue

	Link    string
	Workers int
	State   string
}

func (f *fleet) queueViews() []queueView {
	var all []queueView
	for _, q := range f.Queues {
		v := queueView{Queue: q, Link: "/queue?name=" + url.QueryEscape(q.Queue), State: "served"}
		for _, w := range f.Workers {
			if w.serves(q.Queue) {
				v.Workers++
			}
		}
		switch {
		case q.Paused:
			v.State = "paused"
		case v.Workers == 0:
			v.State = "no worker"
		}
		all = append(all, v)
	}
	return all
}

// queuesData is the page of all queues and workers.
type queuesData struct {
	Queues  []queueView
	Workers []workerProcess
	Duty    string
}

func (s *Server) queuesPage(r *http.Request) (view, error) {
	f := s.look(r.Context())
	d := queuesData{Queues: f.queueViews(), Workers: f.Workers, Duty: f.Duty.Dispatcher}
	return view{Name: "queues", Title: "Queues and workers", Nav: "/queues", Data: d}, nil
}

// queueData is the page of one queue.
type queueData struct {
	Queue queueView
	Lists []taskList
}

// taskList are the first tasks of a queue in one state.
type taskList struct {
	State string
	Of    int
	Tasks []taskRow
}

// taskRow is a task of a list.
type taskRow struct {
	ID, Queue, Type, Note string
}

func (s *Server) queuePage(r *http.Request) (view, error) {
	name := r.URL.Query().Get("name")
	f := s.look(r.Context())
	at := slices.IndexFunc(f.Queues, func(q overview.Queue) bool { return q.Queue == name })
	if at < 0 {
		return view{}, &notFoundError{what: "There is no queue " + name + "."}
	}
	q := f.queueViews()[at]
	d := queueData{Queue: q}
	for _, state := range []struct {
		name string
		of   int
		list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error)
	}{
		{"Running", q.Active, s.inspector.ListActiveTasks},
		{"Ready", q.Pending, s.inspector.ListPendingTasks},
		{"Waiting, or tried again later", q.Retry, s.inspector.ListRetryTasks},
		{"Waiting, or scheduled", q.Scheduled, s.inspector.ListScheduledTasks},
		{"Dead", q.Archived, s.inspector.ListArchivedTasks},
		{"Done, kept for a while", q.Completed, s.inspector.ListCompletedTasks},
	} {
		if state.of == 0 {
			continue
		}
		found, err := state.list(name, asynq.PageSize(tasksShown))
		if err != nil {
			return view{}, fmt.Errorf("list the tasks of queue %s: %w", name, err)
		}
		list := taskList{State: state.name, Of: max(state.of, len(found))}
		for _, t := range found {
			list.Tasks = append(list.Tasks, taskRow{ID: t.ID, Queue: t.Queue, Type: t.Type, Note: firstLine(t.LastErr)})
		}
		d.Lists = append(d.Lists, list)
	}
	return view{Name: "queue", Title: "Queue " + name, Nav: "/queues", Data: d}, nil
}

// pause pauses the queue of the form, resume resumes it.
func (s *Server) pause(r *http.Request) (string, error) {
	return s.setPaused(r, true, "pause", s.inspector.PauseQueue)
}

func (s *Server) resume(r *http.Request) (string, error) {
	return s.setPaused(r, false, "resume", s.inspector.UnpauseQueue)
}

// setPaused has set make a queue as it should be. The notice is the verb in the past.
func (s *Server) setPaused(r *http.Request, want bool, verb string, set func(string) error) (string, error) {
	name := r.PostFormValue("queue")
	if err := s.known(name); err != nil {
		return "", err
	}
	if err := set(name); err != nil && !s.paused(name, want) {
		return "", fmt.Errorf("%s queue %s: %w", verb, name, err)
	}
	return back("/queues", verb+"d", 1), nil
}

// known returns an error unless there is such a queue: asynq pauses any name.
func (s *Server) known(queue string) error {
	all, err := s.inspector.Queues()
	if err != nil {
		return fmt.Errorf("list the queues: %w", err)
	}
	if !slices.Contains(all, queue) {
		return &notFoundError{what: "There is no queue " + queue + "."}
	}
	return nil
}

// paused says whether a queue is as it should be: asynq refuses to pause it twice.
func (s *Server) paused(queue string, want bool) bool {
	info, err := s.inspector.GetQueueInfo(queue)
	return err == nil && info.Paused == want
}
