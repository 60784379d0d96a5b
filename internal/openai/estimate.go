package openai

import (
	"encoding/json"
	"fmt"
	"math"

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
	// imageTokens are about the most that a large image takes, imageLowTokens what one with "detail": "low" takes.
	imageTokens    = 1500
	imageLowTokens = 85
	// mediaTokens is the least for any other attachment, of mediaBytes a token.
	mediaTokens = 1500
	mediaBytes  = 100
)

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
	if string(b.fields["stream"]) == "true" {
		b.fault("stream", "is not supported: answers are read whole")
	}
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
		best, _ := b.number("best_of", 1, 1)
		e.Input = tokens + float64(perToken(len(b.fields["suffix"]), bytesPerToken))
		e.Output = math.Ceil(most) * max(n, best) * prompts
	case Moderations:
		if b.absent("input") {
			b.fault("input", "is missing")
		}
	}
	_ = json.Unmarshal(b.fields["model"], &e.Model) // the provider's to judge
	return e
}

// conversation is the tokens of what items say, and of the text of other fields.
func (b *body) conversation(content any, items int, others ...string) float64 {
	var p prompt
	p.add(content)
	for _, field := range others {
		p.bytes += len(b.fields[field])
	}
	return float64(p.tokens + messageTokens*items + replyTokens + perToken(p.bytes, bytesPerToken))
}

// input reads the input of a response, and how many items it has. A stored prompt may replace it.
func (b *body) input() (input any, items int) {
	if b.absent("input") {
		if b.absent("prompt") {
			b.fault("input", "is missing")
		}
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
			tokens += float64(max(1, perToken(len(text), bytesPerToken)))
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

// prompt adds up what stands in messages.
type prompt struct{ bytes, tokens int }

// add counts the texts in a value, and what is attached to it.
func (p *prompt) add(value any) {
	switch v := value.(type) {
	case string:
		p.bytes += len(v)
	case []any:
		for _, one := range v {
			p.add(one)
		}
	case map[string]any:
		if t, ok := attachment(v); ok {
			p.tokens += t
			return
		}
		for k, one := range v {
			if k != "role" && k != "type" {
				p.add(one)
			}
		}
	default: // numbers and the like are not sent to the model
	}
}

// attachment estimates a part of a message that is not text.
func attachment(part map[string]any) (int, bool) {
	switch part["type"] {
	case "image_url", "input_image":
		image, _ := part["image_url"].(map[string]any)
		if part["type"] == "input_image" { // of a response
			image = part
		}
		if image["detail"] == "low" {
			return imageLowTokens, true
		}
		return imageTokens, true
	case "input_audio", "file", "input_file":
		var size prompt
		for k, one := range part {
			if k != "type" {
				size.add(one)
			}
		}
		return max(mediaTokens, perToken(size.bytes, mediaBytes)), true
	default:
		return 0, false
	}
}

func perToken(bytes, each int) int { return (bytes + each - 1) / each }
