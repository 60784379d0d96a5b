package enqueue

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/batchref"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// request is the task of a line.
type request struct {
	*tasks.Terms // of args

	args tasks.Args
}

// of makes the task that of a line of a batch.
func (r request) of(id string, line, round int) tasks.Args {
	r.Batch = &batchref.Ref{Batch: id, Line: line, Round: round}
	return r.args
}

// maker makes tasks of the lines of a batch.
type maker struct {
	from  *source
	model string // empty: each line's own
	large bool   // a request may reserve more than a capacity
}

// task is the task of a line, of no batch yet, which shares its limits as the source says. The error says why it can
// never be served, or should not be.
func (m maker) task(line batch.Line) (request, error) {
	r, err := m.any(line)
	if err == nil && !m.large {
		err = m.from.fits(r)
	}
	return r, err
}

// any is task for a request of any size.
func (m maker) any(line batch.Line) (request, error) {
	if line.HTTP() {
		task, err := m.from.request(line)
		return request{&task.Terms, task}, cmp.Or(err, m.from.valid(task))
	}
	body, err := withModel(line.Body, m.model)
	if err != nil {
		return request{}, err
	}
	task, err := m.from.call(llm.Endpoint(line.URL), body)
	task.CustomID = line.CustomID
	return request{&task.Terms, task}, cmp.Or(err, m.from.valid(task))
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
func (s *source) call(endpoint llm.Endpoint, body json.RawMessage) (*llm.Call, error) {
	task := &llm.Call{Terms: s.common, Endpoint: endpoint, Request: body}
	if err := s.providers.Check(s.buckets[len(s.buckets)-1].limit.Name); err != nil {
		return task, err
	}
	for _, b := range s.buckets {
		charge, err := endpoint.Charge(b.limit.Name, b.key, body, b.meters...)
		if err != nil {
			return task, err
		}
		task.Taken = append(task.Taken, charge)
	}
	return task, nil
}

// request is the task for an HTTP request of its own, which takes from each limit what it names of its meters; where it
// names nothing, one request.
func (s *source) request(line batch.Line) (*web.Request, error) {
	task := &web.Request{Terms: s.common, Method: line.Method, URL: line.URL, Header: line.Headers, Body: line.Body}
	task.CustomID = line.CustomID
	err := s.http.Client(func(string) string { return "" }).Check(*task)
	unlisted := len(s.http.AllowHosts) == 0 && errors.Is(err, web.ErrHostNotAllowed)
	if err != nil && !unlisted {
		return task, err
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
		return task, fmt.Errorf("charge: %w %q of the limits %s", reservations.ErrUnknownMeter,
			slices.Sorted(maps.Keys(unknown)), s)
	}
	if len(task.Taken) == 0 {
		return task, fmt.Errorf("charge: the request takes nothing from the limits %s: say what it takes of "+
			"which meter", s)
	}
	return task, nil
}

// valid says why a task can never be served.
func (s *source) valid(task tasks.Charger) error {
	for _, charge := range task.Charges() {
		if err := s.checker.Validate(charge); err != nil {
			return err
		}
	}
	return nil
}

// each calls good for every task of the file, and faulty for every line that is none. Unique says that no custom_id is
// there twice.
func (m maker) each(file io.Reader, unique bool, good func(batch.Line, request) error, faulty func(error)) error {
	reader := batch.NewReader(file, batch.Config{Unique: unique})
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if fault := (*batch.LineError)(nil); errors.As(err, &fault) {
			faulty(fault)
			continue
		}
		if err != nil {
			return err
		}
		task, err := m.task(line)
		if err != nil {
			fault := &batch.LineError{Line: line.Number, Field: "body", Err: err}
			if line.HTTP() {
				fault.Field = ""
			}
			faulty(fault)
			continue
		}
		if err := good(line, task); err != nil {
			return err
		}
	}
}

// name says what a batch is: the same content, sent to the same limits and model, is the same batch. Of several batches
// with the same content, n counts from 1.
func (m maker) name(hash string, n int) (id string, err error) {
	for _, b := range m.from.buckets {
		if strings.Contains(b.String(), batches.LimitsBetween) {
			return "", cli.Usage("--limit %s: the key of a batch can't hold %q", b, batches.LimitsBetween)
		}
	}
	text := "headway batch 1\n" + hash + "\n" + m.from.String() + "\n" + m.model
	if n > 1 {
		text += fmt.Sprintf("\n%d", n)
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8]), nil
}
