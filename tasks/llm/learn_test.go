package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/estimates"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// The charge of the next requests follows the usage of a model's answers.
func TestCallsAreRepricedByWhatWasLearned(t *testing.T) {
	t.Parallel()
	learner, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	chat := newChat(t, `{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_tokens":1000}`, "requests",
		"tokens", "output_tokens")
	tenant, err := llm.EndpointChat.Charge("tenants", "acme", chat.Request, "requests", "tokens_per_day")
	if err != nil {
		t.Fatal(err)
	}
	chat.Also = []reservations.Charge{tenant}
	if diff := cmp.Diff(chat, chat.Repriced(learner)); diff != "" {
		t.Errorf("nothing is known, and still: %s", diff)
	}
	for range 100 {
		chat.Call().Learn(learner, llm.Answer{Usage: llm.Usage{Input: 9, Output: 250}}, chat.Charge)
		chat.Call().Learn(learner, llm.Answer{}, chat.Charge) // without a usage
	}
	near := cmpopts.EquateApprox(0.05, 0)
	now := chat.Repriced(learner)
	want := []reservations.Charge{
		{Limit: "tenants", Key: "acme", Tokens: reservations.Tokens{"requests": 1, "tokens_per_day": 259}},
		{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 259, "output_tokens": 250}},
	}
	if diff := cmp.Diff(want, now.Charges(), near); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(reservations.Tokens{"tokens_per_day": 259, "tokens": 259, "output_tokens": 250},
		chat.Call().Expect(learner), near); diff != "" {
		t.Error(diff)
	}
	if chat.Charge["tokens"] != 1009 || chat.Also[0].Tokens["tokens_per_day"] != 1009 {
		t.Errorf("the chat itself was changed: %+v", chat)
	}
	learned := learner.Learned()
	if len(learned) != 1 || learned[0].N != 100 || learned[0].Limit != "openai" || learned[0].Model != "m" ||
		learned[0].Reserved != 100*1009 || learned[0].Used != 100*259 {
		t.Errorf("%+v", learned)
	}
	other := newChat(t, hello)
	other.Limit = "another"
	if diff := cmp.Diff(other, other.Repriced(learner)); diff != "" {
		t.Errorf("another limit: %s", diff)
	}
	chat.Request = json.RawMessage(`{}`)
	if got := chat.Call().Expect(learner); got != nil {
		t.Errorf("a request that can't be sent is expected to use %v", got)
	}
}
