package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// Of an urgent task all charges are urgent.
func TestUrgentTasks(t *testing.T) {
	t.Parallel()
	call := llm.Call{
		Terms:   tasks.Terms{Taken: []reservations.Charge{{Limit: "tenants", Key: "acme"}, {Limit: "openai"}}},
		Request: json.RawMessage(hello),
	}
	for _, urgent := range []bool{true, false} {
		call.Urgent = urgent
		charges := call.Charges()
		if len(charges) != 2 || charges[0].Urgent != urgent || charges[1].Urgent != urgent {
			t.Errorf("%v of a call that is urgent: %v", charges, urgent)
		}
	}
	if call.Taken[0].Urgent {
		t.Error("what was given is changed")
	}
}
