package chat

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// What answers of a model used is what the next requests to it are charged for.
func TestCallsAreChargedByWhatWasLearned(t *testing.T) {
	t.Parallel()
	learner, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	l := &Learning{Learner: learner}
	call, err := llm.NewCall(llm.EndpointChat, "openai",
		json.RawMessage(`{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_tokens":1000}`))
	if err != nil {
		t.Fatal(err)
	}
	estimate, err := assess(call)
	if err != nil {
		t.Fatal(err)
	}
	of := func(input, output float64) reservations.Tokens {
		return reservations.Tokens{
			"input_tokens": input, "output_tokens": output, "tokens": input + output, "tokens_per_day": input + output,
		}
	}
	if diff := cmp.Diff(of(9, 1000), l.expect(estimate, "openai")); diff != "" {
		t.Errorf("nothing is known, and still: %s", diff)
	}
	for range 100 {
		l.learn(estimate, llm.Answer{Usage: of(9, 250)}, call.Taken[0])
		l.learn(estimate, llm.Answer{}, call.Taken[0]) // the provider did not say
	}
	if diff := cmp.Diff(of(9, 250), l.expect(estimate, "openai"), cmpopts.EquateApprox(0.15, 0)); diff != "" {
		t.Error(diff)
	}
	learned := learner.Learned()
	if len(learned) != 1 || learned[0].N != 100 || learned[0].Limit != "openai" || learned[0].Model != "m" ||
		learned[0].Reserved != 100*1009 || learned[0].Used != 100*259 {
		t.Errorf("%+v", learned)
	}
	if diff := cmp.Diff(of(9, 1000), l.expect(estimate, "another")); diff != "" {
		t.Errorf("another limit: %s", diff)
	}
	call.Request = json.RawMessage(`{}`)
	if got, err := assess(call); err == nil {
		t.Errorf("a request that can't be sent is expected to use %v", got)
	}
}
