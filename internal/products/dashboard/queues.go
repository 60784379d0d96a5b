package dashboard

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/state"
)

// queueView is a queue with the workers that take from it.
type queueView struct {
	*asynq.QueueInfo

	Link    string
	Workers int
	// State is served, paused, not known or queueUnserved.
	State  string
	Action action // pauses or resumes it
}

const queueUnserved = "no worker"

func (f *fleet) queueViews() []queueView {
	var all []queueView
	for _, q := range f.Queues {
		v := queueView{
			QueueInfo: q, Link: "queue?name=" + url.QueryEscape(q.Queue), State: "served", Action: pausing(q.Queue, q.Paused),
		}
		v.Workers, _ = f.Takers(q.Queue)
		switch {
		case q.Paused:
			v.State = "paused"
		case v.Workers == 0 && f.Unread(state.PartWorkers) != nil:
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
	return view{Name: "queues", Title: "Queues and workers", Nav: "/queues", Data: d},
		f.unread(state.PartQueues, len(d.Queues))
}

// queueData is the page of one queue.
type queueData struct {
	Queue  queueView
	States []stateCount
	Tasks  taskList
}

// stateCount is how many tasks of a queue have a state, with the list of them.
type stateCount struct {
	Name, Link string
	Tasks      int
}

func (s *Server) queuePage(r *http.Request) (view, error) {
	name := r.URL.Query().Get("name")
	f := s.look(r.Context())
	at := slices.IndexFunc(f.Queues, func(q *asynq.QueueInfo) bool { return q.Queue == name })
	if err := f.unread(state.PartQueues, len(f.Queues)); err != nil {
		return view{}, err
	}
	if at < 0 {
		return view{}, &notFoundError{what: "There is no queue " + name + "."}
	}
	q := f.queueViews()[at]
	d := queueData{Queue: q}
	for _, in := range taskStates {
		if tasks := s.listOf(q.QueueInfo, in).tasks; tasks > 0 {
			d.States = append(d.States, stateCount{in, taskSearch{Queue: name, State: in}.link(), tasks})
		}
	}
	var err error
	d.Tasks, err = s.tasks(r.Context(), taskSearch{Queue: name})
	return view{Name: "queue", Title: "Queue " + name, Nav: "/queues", Data: d}, err
}

// pause pauses the queue of the form, resume resumes it.
func (s *Server) pause(r *http.Request) (string, error)  { return s.setPaused(r, true, "paused") }
func (s *Server) resume(r *http.Request) (string, error) { return s.setPaused(r, false, "resumed") }

func (s *Server) setPaused(r *http.Request, pause bool, notice string) (string, error) {
	_, err := state.SetPaused(r.Context(), s.config.Client, r.PostFormValue("queue"), pause)
	return back("queues", notice, 1), err
}
