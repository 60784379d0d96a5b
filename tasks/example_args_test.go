package tasks_test

import (
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Translate is a task type: its fields are the payload.
type Translate struct {
	Text     string `json:"text"`
	Language string `json:"language"`
}

// TaskType names the type.
func (Translate) TaskType() string { return "translate" }

// Charges returns the charge of one task to the limit "translator".
func (t Translate) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "translator", Tokens: reservations.Tokens{"characters": float64(len(t.Text))}}}
}

// TaskOptions are the defaults of the type.
func (Translate) TaskOptions() tasks.Options { return tasks.Options{MaxRetry: 5} }

// A task type is a struct. Headway adds headers to its task.
func Example() {
	e, err := tasks.Encode(Translate{Text: "good morning", Language: "fi"}, tasks.Options{Queue: "texts"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Task.Type(), string(e.Task.Payload()), e.Options.Queue)
	for _, name := range []string{tasks.HeaderVersion, tasks.HeaderCharges} {
		fmt.Println(name, e.Task.Headers()[name])
	}
	args, err := tasks.Decode[Translate](e.Task)
	fmt.Println(args.Language, err)
	// Output:
	// translate {"text":"good morning","language":"fi"} texts
	// headway-version 1
	// headway-charges [{"limit":"translator","tokens":{"characters":12}}]
	// fi <nil>
}

// A payload that does not decode is never retried.
func ExampleDecode() {
	_, err := tasks.Decode[Translate](asynq.NewTask("translate", []byte(`{"text": 7}`)))
	fmt.Println(errors.Is(err, tasks.ErrBadPayload), errors.Is(err, tasks.ErrPermanent), errors.Is(err, asynq.SkipRetry))
	// Output: true true true
}

// A handler marks a failure that a retry cannot fix. The text of the error does not change.
func ExamplePermanent() {
	err := tasks.Permanent(errors.New("language xx is not offered"))
	fmt.Println(err)
	fmt.Println(errors.Is(err, asynq.SkipRetry))
	// Output:
	// language xx is not offered
	// true
}
