package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// request is the task of a line.
type request interface {
	tasks.Args
	tasks.Charger
}

// maker makes tasks of the lines of a batch.
type maker struct {
	from  *source
	model string // empty: each line's own
}

// task is the task of a line, of no batch yet, which shares its limits as the source says. The error tells why it can
// never be served.
func (m maker) task(line batch.Line) (request, error) {
	task, err := m.ordinary(line)
	if err != nil {
		return nil, err
	}
	task = sharing(task, m.from.common)
	return task, m.from.valid(task)
}

func (m maker) ordinary(line batch.Line) (request, error) {
	if line.HTTP() {
		return m.from.request(line)
	}
	body, err := withModel(line.Body, m.model)
	if err != nil {
		return nil, err
	}
	if line.URL == batch.URLChatCompletions {
		task, failed := m.from.chat(body)
		task.CustomID = line.CustomID
		return task, failed
	}
	task, err := m.from.call(llm.Endpoint(line.URL), body)
	task.CustomID = line.CustomID
	return task, err
}

// sharing is the task with the urgency, the flow and the priority of common, whatever it takes from limits.
func sharing(task request, common reservations.Charge) request {
	switch t := task.(type) {
	case llm.Chat:
		t.Urgent, t.Flow, t.Priority = common.Urgent, common.Flow, common.Priority
		return t
	case llm.Call:
		t.Urgent, t.Flow, t.Priority = common.Urgent, common.Flow, common.Priority
		return t
	case web.Request:
		t.Urgent, t.Flow, t.Priority = common.Urgent, common.Flow, common.Priority
		return t
	}
	return task
}

// of makes a task that of a line of a batch.
func of(id string, line, round int, task request) tasks.Args {
	ref := &tasks.BatchRef{Batch: id, Line: line, Round: round}
	switch t := task.(type) {
	case llm.Chat:
		t.Batch = ref
		return t
	case llm.Call:
		t.Batch = ref
		return t
	case web.Request:
		t.Batch = ref
		return t
	}
	return task
}

// withModel is the body with another model in it.
func withModel(body json.RawMessage, model string) (json.RawMessage, error) {
	if model == "" {
		return body, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	fields["model"] = name
	return json.Marshal(fields)
}

// call is the task for a request to any endpoint.
func (s *source) call(endpoint llm.Endpoint, body json.RawMessage) (llm.Call, error) {
	provider := s.provider()
	task, err := llm.NewCall(endpoint, provider.limit.Name, body, provider.meters...)
	if err != nil {
		return llm.Call{}, err
	}
	task.Key = provider.key
	task.Also, err = s.narrower(endpoint, body)
	return task, err
}

// request is the task for an HTTP request of its own, which takes from each limit what it names of its meters; where it names nothing, one request.
func (s *source) request(line batch.Line) (web.Request, error) {
	task := web.Request{Method: line.Method, URL: line.URL, Header: line.Headers, Body: line.Body, CustomID: line.CustomID}
	err := task.Validate()
	if len(s.http.AllowHosts) > 0 {
		err = s.http.Client(func(string) string { return "" }).Check(task)
	}
	if err != nil {
		return web.Request{}, err
	}
	charge := line.Charge
	if charge == nil {
		charge = map[string]float64{llm.MeterRequests: 1, llm.MeterRequestsPerDay: 1}
	}
	if _, named := charge[reservations.MeterInFlight]; !named {
		charge = maps.Clone(charge)
		charge[reservations.MeterInFlight] = 1
	}
	unknown := maps.Clone(line.Charge)
	for _, b := range s.buckets {
		tokens := reservations.Tokens{}
		for _, meter := range b.meters {
			if n, named := charge[meter]; named {
				tokens[meter] = n
			}
			delete(unknown, meter)
		}
		if len(tokens) > 0 {
			task.Taken = append(task.Taken, reservations.Charge{Limit: b.limit.Name, Key: b.key, Tokens: tokens})
		}
	}
	if len(unknown) > 0 {
		return web.Request{}, fmt.Errorf("charge: %w %q of the limits %s", reservations.ErrUnknownMeter, slices.Sorted(maps.Keys(unknown)), s)
	}
	if len(task.Taken) == 0 {
		return web.Request{}, fmt.Errorf("charge: the request takes nothing from the limits %s: say what it takes of which meter", s)
	}
	return task, nil
}

// valid says why a task can never be served.
func (s *source) valid(task tasks.Charger) error {
	for _, charge := range task.Charges() {
		if err := s.checker.ValidateNew(charge); err != nil {
			return err
		}
	}
	return nil
}
