package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/headway-go/headway/reservations"
)

const (
	// OutputDefault is estimated for the answer to a request that bounds it neither by max_completion_tokens nor by
	// max_tokens.
	OutputDefault = 1024
	// completionDefault is how many tokens the API lets a completion have that names no max_tokens.
	completionDefault = 16
	// bytesPerToken: English prose has four characters a token; other scripts have fewer, of more bytes each.
	bytesPerToken = 4
	// messageTokens frame each message, replyTokens the beginning of the answer.
	messageTokens = 4
	replyTokens   = 3
)

// reasoning are the models that refuse max_tokens: o1 and its successors, gpt-5 and its successors, also finely tuned
// and behind the name of a gateway.
var reasoning = regexp.MustCompile(`^(?:.*[/:])?(?:o[1-9]|gpt-(?:[5-9]|[1-9][0-9])|codex-mini)(?:[^0-9a-z].*)?$`)

// BoundOf is the field that bounds the answer of a chat with a model: max_completion_tokens for the reasoning models of
// OpenAI, which refuse max_tokens, and max_tokens for all others, which may not know the newer name.
func BoundOf(model string) string {
	if reasoning.MatchString(strings.ToLower(model)) {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// body has the fields of a request, and the first fault that was found in them.
type body struct {
	fields map[string]json.RawMessage
	err    error
}

func (b *body) fault(field, problem string) {
	if b.err == nil {
		b.err = &reservations.FieldError{Field: field, Problem: problem}
	}
}

func (b *body) absent(field string) bool {
	raw := b.fields[field]
	return len(raw) == 0 || string(raw) == "null"
}

// number reads a field that is a number from least up. If the field is missing or null, it is otherwise.
func (b *body) number(field string, least, otherwise float64) (n float64, given bool) {
	if b.absent(field) {
		return otherwise, false
	}
	raw := b.fields[field]
	if err := json.Unmarshal(raw, &n); err != nil || n < least || n > math.MaxInt32 {
		b.fault(field, fmt.Sprintf("%.40s is not a number of at least %v", raw, least))
	}
	return n, true
}

// assess assesses a request to an endpoint. Chats and responses are meant to be too high, because the answer is
// counted as long as it may become. Dense text, e.g. code, can take more than is estimated for it; the settlement
// corrects that.
func (b *body) assess(endpoint string) (e Estimate) {
	switch endpoint {
	case Chat:
		var messages []any
		if err := json.Unmarshal(b.fields["messages"], &messages); err != nil || len(messages) == 0 {
			b.fault("messages", "is not a list with at least one message")
		}
		e.Input = b.conversation(messages, len(messages), "tools", "functions", "response_format")
		most, bounded := b.number("max_completion_tokens", 0, 0)
		if !bounded {
			most, bounded = b.number("max_tokens", 0, OutputDefault)
		}
		n, _ := b.number("n", 1, 1)
		e.Output, e.Open = math.Ceil(most)*n, !bounded
	case Responses:
		if string(b.fields["background"]) == "true" {
			b.fault("background", "is not supported: the answer would not be there yet")
		}
		input, items := b.input()
		e.Input = b.conversation(input, items, "instructions", "tools", "text", "prompt")
		most, bounded := b.number("max_output_tokens", 0, OutputDefault)
		e.Output, e.Open = math.Ceil(most), !bounded
	case Embeddings:
		_, e.Input = b.texts("input")
	case Completions:
		prompts, tokens := b.texts("prompt")
		most, _ := b.number("max_tokens", 0, completionDefault)
		n, _ := b.number("n", 1, 1)
		best, _ := b.number("best_of", 0, 1)
		e.Input = tokens + float64(perToken(len(b.fields["suffix"]), bytesPerToken))
		e.Output = math.Ceil(most) * max(n, best) * prompts
	case Moderations:
		if b.absent("input") {
			b.fault("input", "is missing")
		}
	default:
		e.Tokens = b.assessLive(endpoint)
	}
	_ = json.Unmarshal(b.fields["model"], &e.Model) // the provider's to judge
	return e
}

// conversation is the tokens of what items say, and of the text of other fields.
func (b *body) conversation(content any, items int, others ...string) float64 {
	w := weigh(content)
	for _, field := range others {
		w = w.plus(weighRaw(b.fields[field]))
	}
	return float64(w.tokens + messageTokens*items + replyTokens + perToken(w.bytes, bytesPerToken))
}

// input reads the input of a response, and how many items it has. It may be left out, e.g. with a stored prompt or an
// earlier response.
func (b *body) input() (input any, items int) {
	if b.absent("input") {
		return nil, 1
	}
	if err := json.Unmarshal(b.fields["input"], &input); err != nil {
		b.fault("input", "is not valid JSON")
	}
	switch v := input.(type) {
	case nil, string:
	case []any:
		return v, len(v)
	default:
		b.fault("input", "is neither a text nor a list")
	}
	return input, 1
}

// texts reads a text, a list of token ids, or a list of either: how many there are, and all of their tokens.
func (b *body) texts(field string) (number, tokens float64) {
	var value any
	switch {
	case b.absent(field):
		b.fault(field, "is missing")
	case json.Unmarshal(b.fields[field], &value) != nil:
		value = nil // of no type that is read
	}
	list, ok := value.([]any)
	if !ok || isTokens(list) {
		list = []any{value}
	}
	if len(list) == 0 {
		b.fault(field, "is empty")
	}
	for _, one := range list {
		ids, _ := one.([]any)
		text, isText := one.(string)
		switch {
		case isText:
			w := weighText(text)
			tokens += float64(max(1, w.tokens+perToken(w.bytes, bytesPerToken)))
		case isTokens(ids):
			tokens += float64(len(ids))
		default:
			b.fault(field, "is not a text, a list of texts, or token ids")
		}
	}
	return float64(len(list)), tokens
}

// isTokens says whether a list holds token ids, at least one.
func isTokens(list []any) bool {
	for _, one := range list {
		if _, ok := one.(float64); !ok {
			return false
		}
	}
	return len(list) > 0
}

func perToken(bytes, each int) int { return (bytes + each - 1) / each }
