package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// All charges of an urgent task are urgent, even if it has only narrower limits.
func TestUrgentTasks(t *testing.T) {
	t.Parallel()
	also := []reservations.Charge{{Limit: "tenants", Key: "acme", Tokens: reservations.Tokens{"requests": 1}}}
	request := json.RawMessage(`{"model":"m","input":"a"}`)
	chat := llm.Chat{Also: also, Limit: "openai", Urgent: true, Request: json.RawMessage(hello)}
	narrow := chat
	narrow.Limit = ""
	call := llm.Call{Endpoint: llm.EndpointEmbeddings, Also: also, Limit: "openai", Urgent: true, Request: request}
	for name, c := range map[string]struct {
		task tasks.Charger
		want int
	}{"chat": {chat, 2}, "narrow": {narrow, 1}, "chat as a call": {chat.Call(), 2}, "call": {call, 2}} {
		charges := c.task.Charges()
		if len(charges) != c.want {
			t.Errorf("%s: %v", name, charges)
		}
		for _, charge := range charges {
			if !charge.Urgent {
				t.Errorf("%s: %v is not urgent", name, charge)
			}
		}
	}
	if also[0].Urgent || (llm.Call{Also: also, Limit: "openai"}).Charges()[0].Urgent {
		t.Error("the argument was changed")
	}
}
