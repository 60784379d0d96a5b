package openai

import (
	"encoding/json"
	"math"

	"github.com/headway-go/headway/internal/estimates"
)

// completionDefault is how many tokens the API lets a completion have that names no max_tokens.
const completionDefault = 16

// responseOf assesses a request to Responses.
func responseOf(body map[string]json.RawMessage) (Estimate, error) {
	if string(body["background"]) == "true" {
		return Estimate{}, fault("background", "is not supported: the answer would not be there yet")
	}
	if absent(body["input"]) && absent(body["prompt"]) {
		return Estimate{}, fault("input", "is missing")
	}
	var input any
	if !absent(body["input"]) {
		if err := json.Unmarshal(body["input"], &input); err != nil {
			return Estimate{}, fault("input", "is not valid JSON")
		}
	}
	var p prompt
	items := 1
	switch v := input.(type) {
	case nil, string:
	case []any:
		items = len(v)
	default:
		return Estimate{}, fault("input", "is neither a text nor a list")
	}
	p.add(input)
	for _, field := range []string{"instructions", "tools", "text", "prompt"} {
		p.bytes += len(body[field])
	}
	most, bounded, err := number(body, "max_output_tokens", 0)
	if err != nil {
		return Estimate{}, err
	}
	if !bounded {
		most = OutputDefault
	}
	tokens := p.tokens + messageTokens*items + replyTokens + perToken(p.bytes, bytesPerToken)
	return Estimate{Tokens: estimates.Tokens{Input: float64(tokens), Output: math.Ceil(most)}, Open: !bounded}, nil
}

// completionOf assesses a request to Completions.
func completionOf(body map[string]json.RawMessage) (Estimate, error) {
	prompts, err := inputsOf(body, "prompt")
	if err != nil {
		return Estimate{}, err
	}
	most, bounded, err := number(body, "max_tokens", 0)
	if err != nil {
		return Estimate{}, err
	}
	if !bounded {
		most = completionDefault
	}
	answers := 1.
	for _, field := range []string{"n", "best_of"} {
		n, ok, err := number(body, field, 1)
		if err != nil {
			return Estimate{}, err
		}
		if ok {
			answers = max(answers, n)
		}
	}
	input := prompts.sum() + perToken(len(body["suffix"]), bytesPerToken)
	return Estimate{Tokens: estimates.Tokens{
		Input:  float64(input),
		Output: math.Ceil(most) * answers * float64(len(prompts)),
	}}, nil
}

// inputs are the tokens of each text of a request.
type inputs []int

func (i inputs) sum() (tokens int) {
	for _, n := range i {
		tokens += n
	}
	return tokens
}

// inputsOf reads a text, a list of token ids, or a list of either.
func inputsOf(body map[string]json.RawMessage, field string) (inputs, error) {
	wrong := fault(field, "is not a text, a list of texts, or token ids")
	if absent(body[field]) {
		return nil, fault(field, "is missing")
	}
	var value any
	if err := json.Unmarshal(body[field], &value); err != nil {
		return nil, wrong
	}
	list, ok := value.([]any)
	if !ok || isTokens(list) {
		list = []any{value}
	}
	if len(list) == 0 {
		return nil, fault(field, "is empty")
	}
	var all inputs
	for _, one := range list {
		switch v := one.(type) {
		case string:
			all = append(all, max(1, perToken(len(v), bytesPerToken)))
		case []any:
			if !isTokens(v) {
				return nil, wrong
			}
			all = append(all, len(v))
		default:
			return nil, wrong
		}
	}
	return all, nil
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
