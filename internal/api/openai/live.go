package openai

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/api/estimates"
)

// The endpoints that only calls through the gateway use, beside the known ones.
const (
	Messages = "/v1/messages" // of Anthropic
	Images   = "/v1/images/generations"
	Speech   = "/v1/audio/speech"
)

// imageMost are the most tokens that a picture of the gpt-image models takes.
const imageMost = 6240

// AssessLive is Assess for a call whose answer may be streamed. It also knows Messages, Images and Speech.
func AssessLive(endpoint string, request json.RawMessage) (Estimate, error) {
	if !slices.Contains([]string{Messages, Images, Speech}, endpoint) && !slices.Contains(Endpoints(), endpoint) {
		return Assess(endpoint, request)
	}
	return assess(endpoint, request, true)
}

// assessLive assesses a request to an endpoint of the gateway's own:
//
//   - messages: as a chat, with system and tools; max_tokens
//   - images: the prompt; 6240 tokens a picture of a model that counts them
//   - speech: the input
func (b *body) assessLive(endpoint string) (t estimates.Tokens) {
	switch endpoint {
	case Messages:
		var messages []any
		if err := json.Unmarshal(b.fields["messages"], &messages); err != nil || len(messages) == 0 {
			b.fault("messages", "is not a list with at least one message")
		}
		t.Input = b.conversation(messages, len(messages), "system", "tools")
		most, bounded := b.number("max_tokens", 0, 0)
		if !bounded {
			b.fault("max_tokens", "is missing")
		}
		t.Output = math.Ceil(most)
	case Images:
		_, t.Input = b.texts("prompt")
		n, _ := b.number("n", 1, 1)
		var model string
		if _ = json.Unmarshal(b.fields["model"], &model); strings.HasPrefix(model, "gpt-image") {
			t.Output = imageMost * n
		}
	case Speech:
		_, t.Input = b.texts("input")
	}
	return t
}
