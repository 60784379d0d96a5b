package envelope_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

type (
	byPointer      struct{ N int } //nolint:recvcheck // the mistake
	optionsPointer struct{ N int } //nolint:recvcheck // the mistake
	oneCharge      struct{ N int }
	misspelt       struct{ N int }
	oneOption      struct{ N int }
	twice          struct {
		tasks.Terms
		Also
	}
	hidden struct {
		tasks.Terms

		Charges int
	}
	withContext struct{ N int }
	withError   struct{ N int } //nolint:recvcheck // the mistake
	wrongResult struct{ N int }
	otherName   struct{ N int }
	inField     struct{ Charges []reservations.Charge }
	inTerms     struct{ Terms tasks.Terms }
	// Also is a second Charger to embed.
	Also struct{}
)

func charge() []reservations.Charge { return []reservations.Charge{{Limit: "l"}} }

func (byPointer) TaskType() string                    { return "t" }
func (*byPointer) Charges() []reservations.Charge     { return charge() }
func (optionsPointer) TaskType() string               { return "t" }
func (optionsPointer) Charges() []reservations.Charge { return charge() }
func (*optionsPointer) TaskOptions() tasks.Options    { return tasks.Options{} }
func (oneCharge) TaskType() string                    { return "t" }
func (oneCharge) Charges() reservations.Charge        { return charge()[0] }
func (misspelt) TaskType() string                     { return "t" }
func (misspelt) Charge() []reservations.Charge        { return charge() }
func (oneOption) TaskType() string                    { return "t" }
func (oneOption) TaskOption() tasks.Options           { return tasks.Options{} }
func (twice) TaskType() string                        { return "t" }
func (hidden) TaskType() string                       { return "t" }
func (withContext) TaskType() string                  { return "t" }
func (withContext) Charges(context.Context) []reservations.Charge {
	return charge()
}
func (*withError) Charges() ([]reservations.Charge, error) { return charge(), nil }
func (withError) TaskType() string                         { return "t" }
func (wrongResult) TaskType() string                       { return "t" }
func (wrongResult) Charges() int                           { return 1 }
func (otherName) TaskType() string                         { return "t" }
func (otherName) Cost() *reservations.Charge               { return nil }
func (inField) TaskType() string                           { return "t" }
func (inTerms) TaskType() string                           { return "t" }
func (Also) Charges() []reservations.Charge                { return charge() }

// A mistake in Go does not make tasks unlimited: what seems to be a Charger or an Optioner and is none is refused, by
// the producer and by the worker.
func TestWhatSeemsToBeACharger(t *testing.T) {
	t.Parallel()
	for want, args := range map[string]tasks.Args{
		"envelope_test.byPointer has Charges at its pointer alone: write func (a byPointer) Charges()": byPointer{1},
		"has TaskOptions at its pointer alone":                                                         optionsPointer{},
		"has the method Charges() reservations.Charge, which nothing calls: it must be":                oneCharge{},
		"has the method Charge() []":                                                                   misspelt{},
		"has the method TaskOption() tasks.Options, which nothing calls":                               oneOption{},
		"has the method Charges(context.Context) []reservations.Charge, which nothing calls":           withContext{},
		"has the method Charges() ([]reservations.Charge, error), which nothing calls":                 withError{},
		"has the method Charges() int, which nothing calls":                                            wrongResult{},
		"has the method Cost() *reservations.Charge, which nothing calls":                              otherName{},
		"has the field Charges []reservations.Charge, which nothing reads":                             inField{},
		"has the field Terms tasks.Terms, which nothing reads":                                         inTerms{},
		"embeds tasks.Terms, whose Charges another embedded type or field hides":                       twice{},
		"embeds tasks.Terms, whose Charges another embedded type or field":                             hidden{},
	} {
		if _, err := envelope.Encode(args); !errors.Is(err, tasks.ErrBadPayload) || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: %v, want %q", args, err, want)
		}
	}
	if _, err := envelope.TypeOf[byPointer](); !errors.Is(err, tasks.ErrBadPayload) {
		t.Errorf("a worker takes it: %v", err)
	}
	if _, err := envelope.ChargesAs[byPointer](asynq.NewTask("t", []byte("{}"))); !errors.Is(err, tasks.ErrBadPayload) {
		t.Errorf("a foreign task is unlimited: %v", err)
	}
	if e, err := envelope.Encode(&byPointer{1}); err != nil || len(e.Charges) != 1 {
		t.Errorf("a pointer takes %v, %v", e.Charges, err)
	}
}

// A header that is meant to have the charges, and has another name, does not make a task unlimited.
func TestMisnamedCharges(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Headway-Charges", "headway-charge", "HEADWAY-CHARGES"} {
		task := asynq.NewTaskWithHeaders("t", []byte("{}"), map[string]string{name: `[{"limit":"l","tokens":{"t":1}}]`})
		if charges, err := envelope.Charges(task); charges != nil || !errors.Is(err, envelope.ErrBadHeader) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, charges, err)
		}
	}
}
