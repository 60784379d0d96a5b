package enqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
)

// request is the task of a line.
type request struct {
	*tasks.Terms // of args

	args tasks.Args
	line batch.Line // with the model of the batch
}

// of makes the task that of its line in a batch.
func (r request) of(b batches.Batch, round int) tasks.Args {
	ref := batchref.Ref{Batch: b.ID, Line: r.line.Number, Round: round}.Signed(b.Key)
	r.Batch = (*tasks.BatchRef)(&ref)
	return r.args
}

// task is the task of a line, of no batch yet. The error says why it can never be served, or should not be.
func (s *source) task(line batch.Line) (r request, err error) {
	if line.HTTP() {
		r, err = s.request(line)
	} else {
		r, err = s.call(line)
	}
	if err == nil {
		err = s.check(r)
	}
	return r, err
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
	fields["model"], _ = json.Marshal(model) // a text has no fault
	return json.Marshal(fields)
}

// call is the task for a request to any endpoint.
func (s *source) call(line batch.Line) (request, error) {
	task := &llm.Call{Terms: s.common, Endpoint: llm.Endpoint(line.URL)}
	task.CustomID = line.CustomID
	err := s.config.Providers.Check(s.buckets[len(s.buckets)-1].limit.Name)
	if err != nil {
		return request{}, err
	}
	if line.Body, err = withModel(line.Body, s.model); err != nil {
		return request{}, err
	}
	task.Request = line.Body
	for _, b := range s.buckets {
		charge, err := task.Endpoint.Charge(b.limit.Name, b.key, line.Body, b.meters...)
		if err != nil {
			return request{}, err
		}
		task.Taken = append(task.Taken, charge)
	}
	return request{&task.Terms, task, line}, nil
}

// request is the task for an HTTP request of its own, which takes from each limit what it names of its meters: all of
// them, also with zero, so that a mistyped line is not unlimited. Where it names none, it takes one request of each.
func (s *source) request(line batch.Line) (request, error) {
	task := &web.Request{Terms: s.common, Method: line.Method, URL: line.URL, Header: line.Headers, Body: line.Body}
	task.CustomID = line.CustomID
	err := s.config.HTTP.Client(func(string) string { return "" }).Check(*task)
	unlisted := len(s.config.HTTP.AllowHosts) == 0 && errors.Is(err, web.ErrHostNotAllowed)
	if err != nil && !unlisted {
		return request{}, err
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
		tokens, takes := reservations.Tokens{}, false
		for _, meter := range b.meters {
			if n, named := charge[meter]; named || line.Charge == nil {
				tokens[meter] = n
				takes = takes || n > 0
			}
			delete(unknown, meter)
		}
		if line.Charge == nil && !takes {
			return request{}, fmt.Errorf("charge: the request takes nothing from the limit %s: say what it takes of "+
				"which meter", b)
		}
		task.Taken = append(task.Taken, reservations.Charge{Limit: b.limit.Name, Key: b.key, Tokens: tokens})
	}
	if len(unknown) > 0 {
		return request{}, fmt.Errorf("charge: %w %q of the limits %s", reservations.ErrUnknownMeter,
			slices.Sorted(maps.Keys(unknown)), s)
	}
	return request{&task.Terms, task, line}, nil
}

// errLarge is a request that reserves more than a capacity.
var errLarge = errors.New("above the capacity")

// check says why a task can never be served, or that it reserves more than the capacity of a meter. A pure queue has no
// capacity to exceed.
func (s *source) check(task tasks.Charger) error {
	charges := task.Charges()
	for _, charge := range charges {
		if err := s.checker.Validate(charge); err != nil {
			return err
		}
	}
	for _, charge := range charges {
		limit, _ := inside.Of(s.checker).Limits().For(charge.Limit, "") // valid ones have a limit
		for _, m := range limit.Meters {
			if n := charge.Tokens[m.Name]; !s.large && m.Cap() > 0 && n > m.Cap() {
				return fmt.Errorf("reserves %s %s, %w of %s of limit %s: it would wait for a full bucket, and all others "+
					"until that is paid back; --allow-large sends it", cli.Amount(n), m.Name, errLarge, cli.Amount(m.Cap()),
					limit.Name)
			}
		}
	}
	return nil
}

// each calls good for every task of the file, and faulty for every line that is none. Unique says that no custom_id is
// there twice.
func (s *source) each(file io.Reader, unique bool, good func(request) error, faulty func(error)) error {
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
		task, err := s.task(line)
		if err != nil {
			fault := &batch.LineError{Line: line.Number, Field: "body", Err: err}
			if line.HTTP() {
				fault.Field = ""
			}
			faulty(fault)
			continue
		}
		if err := good(task); err != nil {
			return err
		}
	}
}
