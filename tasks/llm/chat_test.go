package llm_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"12345678"}],"max_tokens":10}`

func TestNewChatChargesTheMetersOfTheLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meters []string
		want   reservations.Tokens
	}{
		"by default":    {nil, reservations.Tokens{"requests": 1, "tokens": 19}},
		"requests only": {[]string{"requests"}, reservations.Tokens{"requests": 1}},
		"apart": {[]string{"input_tokens", "output_tokens"}, reservations.Tokens{
			"input_tokens":  9,
			"output_tokens": 10,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chat, err := llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(hello), c.meters...)
			if err != nil {
				t.Fatal(err)
			}
			chat.Taken[0].Key = "team-a"
			want := []reservations.Charge{{Limit: "openai", Key: "team-a", Tokens: c.want}}
			if diff := cmp.Diff(want, chat.Charges()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Narrower limits come first, the chat's own last. The payload contains them.
func TestChatOfSeveralLimits(t *testing.T) {
	t.Parallel()
	chat, err := llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(hello), "requests", "tokens")
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := llm.EndpointChat.Charge("tenants", "acme", json.RawMessage(hello), "requests", "output_tokens")
	if err != nil {
		t.Fatal(err)
	}
	chat.Taken = slices.Insert(chat.Taken, 0, tenant)
	want := []reservations.Charge{
		{Limit: "tenants", Key: "acme", Tokens: reservations.Tokens{"requests": 1, "output_tokens": 10}},
		{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 19}},
	}
	if diff := cmp.Diff(want, chat.Charges()); diff != "" {
		t.Error(diff)
	}
	e, err := envelope.Encode(chat)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(e.Task.Payload()),
		`"charges":[{"limit":"tenants","key":"acme","tokens":{"output_tokens":10,"requests":1}},{"limit":"openai"`) {
		t.Errorf("payload %s", e.Task.Payload())
	}
	got, err := envelope.Decode[llm.Call](e.Task)
	if diff := cmp.Diff(chat, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err = llm.EndpointChat.Charge("tenants", "acme", json.RawMessage(hello), "images"); !errors.Is(err,
		reservations.ErrUnknownMeter) || !strings.Contains(err.Error(), "tenants:acme") {
		t.Errorf("got %v, want an unknown meter", err)
	}
}

func TestNewChatErrors(t *testing.T) {
	t.Parallel()
	_, err := llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(hello), "requests", "images")
	if !errors.Is(err, reservations.ErrUnknownMeter) || !strings.Contains(err.Error(), "images of openai") {
		t.Errorf("got %v, want an unknown meter", err)
	}
	_, err = llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(`{}`))
	if _, ok := errors.AsType[*reservations.FieldError](err); !ok {
		t.Errorf("got %v, want a *reservations.FieldError", err)
	}
}

// An empty limit, e.g. of an unset variable, starts no unlimited calls.
func TestNoCallWithAnEmptyLimit(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []llm.Endpoint{llm.EndpointChat, llm.EndpointEmbeddings} {
		call, err := llm.NewCall(endpoint, "", json.RawMessage(`{"input":"a","messages":[{"role":"user","content":"x"}]}`))
		field, ok := errors.AsType[*reservations.FieldError](err)
		if !ok || field.Field != "limit" || call.Charges() != nil {
			t.Errorf("charges %v, %v", call.Charges(), err)
		}
	}
}

// The provider gets the unchanged body of the file. The payload contains only the chat.
func TestChatRoundTrip(t *testing.T) {
	t.Parallel()
	body := `{"messages":[{"role":"user","content":"a<b & c \u00e9"}],"seed":12345678901234567890,"x_new":{"a":[1.50,` +
		`null]}}`
	chat, err := llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(body))
	if err != nil {
		t.Fatal(err)
	}
	chat.CustomID = "request-1"
	e, err := envelope.Encode(chat)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"charges":[{"limit":"openai","tokens":{"requests":1,"tokens":1034}}],"custom_id":"request-1",` +
		`"endpoint":"/v1/chat/completions","request":` + body + `}`
	if got := string(e.Task.Payload()); got != want {
		t.Errorf("payload\n%s, want\n%s", got, want)
	}
	got, err := envelope.Decode[llm.Call](e.Task)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(chat, got); diff != "" {
		t.Error(diff)
	}
}
