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

// A task type is a struct with the methods of Args, Charger and Optioner.
func Example() {
	var args tasks.Args = Translate{Text: "good morning", Language: "fi"}
	charger, limited := args.(tasks.Charger)
	fmt.Println(args.TaskType(), limited, charger.Charges()[0].Tokens)
	// Output: translate true map[characters:12]
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
