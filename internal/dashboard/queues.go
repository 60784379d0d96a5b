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
	*asynq.QueueInfo

	Link    string
	Workers int
	// State is served, paused, not known or queueUnserved.
	State string
}

const queueUnserved = "no worker"

func (f *fleet) queueViews() []queueView {
	var all []queueView
	for _, q := range f.Queues {
		v := queueView{QueueInfo: q, Link: "/queue?name=" + url.QueryEscape(q.Queue), State: "served"}
		for _, w := range f.Workers {
			if serves(w, q.Queue) {
				v.Workers++
			}
		}
		switch {
		case q.Paused:
			v.State = "paused"
		case v.Workers == 0 && f.faulty("workers"):
			v.State = "not known"
		case v.Workers == 0:
			v.State = queueUnserved
		}
		all = append(all, v)
	}
	return all
}

// queuesData is the page of all queues and workers.
type queuesData struct {
	Queues  []queueView
	Workers []*asynq.ServerInfo
	Duty    string
}

func (s *Server) queuesPage(r *http.Request) (view, error) {
	f := s.look(r.Context())
	d := queuesData{Queues: f.queueViews(), Workers: f.Workers, Duty: f.Duty.Dispatcher}
	return view{Name: "queues", Title: "Queues and workers", Nav: "/queues", Data: d}, f.unread("queues", len(d.Queues))
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

// taskState is a state of a queue's tasks, with how many there are.
type taskState struct {
	name, note string
	of         int
	list       func(queue string, o ...asynq.ListOption) ([]*asynq.TaskInfo, error)
}

// openStates is how many of the states are of tasks that have not ended. They are the first ones.
const openStates = 4

// states are the states of the tasks of a queue.
func (s *Server) states(q *asynq.QueueInfo) []taskState {
	return []taskState{
		{"Running", "runs", q.Active, s.inspector.ListActiveTasks},
		{"Ready", "ready", q.Pending, s.inspector.ListPendingTasks},
		{"Waiting, or tried again later", "waits", q.Retry, s.inspector.ListRetryTasks},
		{"Waiting, or scheduled", "waits", q.Scheduled, s.inspector.ListScheduledTasks},
		{"Dead", "", q.Archived, s.inspector.ListArchivedTasks},
		{"Done, kept for a while", "", q.Completed, s.inspector.ListCompletedTasks},
	}
}

func (s *Server) queuePage(r *http.Request) (view, error) {
	name := r.URL.Query().Get("name")
	f := s.look(r.Context())
	at := slices.IndexFunc(f.Queues, func(q *asynq.QueueInfo) bool { return q.Queue == name })
	if err := f.unread("queues", len(f.Queues)); err != nil {
		return view{}, err
	}
	if at < 0 {
		return view{}, &notFoundError{what: "There is no queue " + name + "."}
	}
	q := f.queueViews()[at]
	d := queueData{Queue: q}
	for _, state := range s.states(q.QueueInfo) {
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
func (s *Server) pause(r *http.Request) (string, error)  { return s.setPaused(r, true, "paused") }
func (s *Server) resume(r *http.Request) (string, error) { return s.setPaused(r, false, "resumed") }

func (s *Server) setPaused(r *http.Request, pause bool, notice string) (string, error) {
	return back("/queues", notice, 1), overview.SetPaused(s.inspector, r.PostFormValue("queue"), pause)
}
