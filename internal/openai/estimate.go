package openai

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/headway-go/headway/internal/estimates"
)

const (
	// OutputDefault is estimated for the answer to a request that bounds it neither by max_completion_tokens nor by
	// max_tokens.
	OutputDefault = 1024
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

// chatOf assesses a request to Chat. It is meant to be too high, because the answer is counted as long as it may
// become. Dense text, e.g. code, can take more than is estimated for it; the settlement corrects that.
func chatOf(body map[string]json.RawMessage) (Estimate, error) {
	var messages []any
	if err := json.Unmarshal(body["messages"], &messages); err != nil || len(messages) == 0 {
		return Estimate{}, fault("messages", "is not a list with at least one message")
	}
	output, open, err := outputOf(body)
	if err != nil {
		return Estimate{}, err
	}
	var p prompt
	for _, m := range messages {
		p.add(m)
	}
	for _, field := range []string{"tools", "functions", "response_format"} {
		p.bytes += len(body[field])
	}
	input := p.tokens + messageTokens*len(messages) + replyTokens + perToken(p.bytes, bytesPerToken)
	return Estimate{Tokens: estimates.Tokens{Input: float64(input), Output: output}, Open: open}, nil
}

// outputOf is how long the answers may become together, open where nothing bounds them.
func outputOf(body map[string]json.RawMessage) (output float64, open bool, err error) {
	most, ok, err := number(body, "max_completion_tokens", 0)
	if err == nil && !ok {
		most, ok, err = number(body, "max_tokens", 0)
	}
	if err != nil {
		return 0, false, err
	}
	if open = !ok; open {
		most = OutputDefault
	}
	n, ok, err := number(body, "n", 1)
	if err != nil {
		return 0, false, err
	}
	if !ok {
		n = 1
	}
	return math.Ceil(most) * n, open, nil
}

// number reads a field that is a number from least up. It is not ok where the field is missing or null.
func number(body map[string]json.RawMessage, field string, least float64) (float64, bool, error) {
	raw, ok := body[field]
	if !ok || string(raw) == "null" {
		return 0, false, nil
	}
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || n < least || n > math.MaxInt32 {
		return 0, false, fault(field, fmt.Sprintf("%.40s is not a number of at least %v", raw, least))
	}
	return n, true, nil
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
	case "image_url":
		if image, ok := part["image_url"].(map[string]any); ok && image["detail"] == "low" {
			return imageLowTokens, true
		}
		return imageTokens, true
	case "input_image": // of a response
		if part["detail"] == "low" {
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
