package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
	"unicode/utf8"
)

// dimensions is the length of an embedding.
const dimensions = 8

// maxTokensDefault is the bound of an answer if its request has none.
const maxTokensDefault = 16

// request is the part of a request that the provider reads, of any endpoint.
type request struct {
	ID       string `json:"id"` // of a tick request
	Model    string `json:"model"`
	Messages []struct {
		Content any `json:"content"`
	} `json:"messages"`
	Input               json.RawMessage   `json:"input"`
	Prompt              json.RawMessage   `json:"prompt"`
	Instructions        string            `json:"instructions"`
	MaxOutputTokens     *int              `json:"max_output_tokens"`
	MaxTokens           *int              `json:"max_tokens"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	Stream              bool              `json:"stream"`
	Metadata            map[string]string `json:"metadata"`
	User                string            `json:"user"` // the tenant
}

// priced is the charge of one request, and its answer. Most is the part of the charge for the bounded answer.
type priced struct {
	prompt, most int
	answer       func(id string, now time.Time, completion int) any
}

// endpoint serves an endpoint.
func (s *Server) endpoint(read func(request) (priced, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := s.cfg.NowFunc()
		body, ok := readBody(w, r)
		if !ok {
			return
		}
		var (
			req  request
			call priced
		)
		err := json.Unmarshal(body, &req)
		switch {
		case err != nil:
		case req.Stream:
			err = errors.New("'stream' is not supported here")
		default:
			call, err = read(req)
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
			return
		}
		ch := s.characterOf(body)
		completion := 0
		if call.most > 0 {
			completion = max(1, int(math.Round(ch.share*float64(call.most))))
		}
		s.serve(w, r, now, job{
			task:   cmp.Or(r.Header.Get(TaskHeader), req.Metadata["headway_task"], req.Metadata["custom_id"], req.ID),
			tenant: req.User, character: ch,
			prompt: float64(call.prompt), estimate: float64(call.prompt + call.most), used: float64(call.prompt +
				completion),
			answer: call.answer(ch.id, now, completion),
		})
	}
}

// tickCall is a call without an LLM: one request, no tokens.
func tickCall(r request) (priced, error) {
	return priced{answer: func(string, time.Time, int) any { return map[string]any{"id": r.ID, "object": "tick"} }}, nil
}

// chatCall charges a quarter of the characters in all messages, rounded up, and the largest number of tokens of the
// answer.
func chatCall(r request) (priced, error) {
	c := priced{most: maxTokensDefault}
	for _, bound := range []*int{r.MaxTokens, r.MaxCompletionTokens} {
		if bound != nil {
			c.most = *bound
		}
	}
	switch {
	case r.Model == "":
		return c, missingModel(r.Model)
	case len(r.Messages) == 0:
		return c, errors.New("'messages' must not be empty")
	case c.most < 1:
		return c, errors.New("'max_tokens' must be at least 1")
	}
	for i, m := range r.Messages {
		switch m.Content.(type) {
		case nil, string, []any:
			c.prompt += characters(m.Content)
		default:
			return c, fmt.Errorf("messages[%d].content must be a text or a list of parts", i)
		}
	}
	c.prompt = (c.prompt + 3) / 4
	c.answer = func(id string, now time.Time, completion int) any {
		return map[string]any{
			"id": "chatcmpl-" + id, "object": "chat.completion", "created": now.Unix(), "model": r.Model,
			"choices": []any{map[string]any{
				"index": 0, "message": map[string]any{
					"role": "assistant", "content": standIn(completion),
					"refusal": nil,
				},
				"logprobs": nil, "finish_reason": "stop",
			}},
			"usage": usage(c.prompt, completion),
		}
	}
	return c, nil
}

func standIn(tokens int) string { return fmt.Sprintf("A stand-in for an answer of %d tokens.", tokens) }

func usage(prompt, completion int) map[string]any {
	return map[string]any{"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
}

func responseCall(r request) (priced, error) {
	if r.Model == "" {
		return priced{}, missingModel(r.Model)
	}
	var input any
	if err := json.Unmarshal(r.Input, &input); err != nil {
		return priced{}, errors.New("'input' must be a text or a list")
	}
	c := priced{prompt: (characters(input) + utf8.RuneCountInString(r.Instructions) + 3) / 4, most: maxTokensDefault}
	if r.MaxOutputTokens != nil {
		if c.most = *r.MaxOutputTokens; c.most < 1 {
			return priced{}, errors.New("'max_output_tokens' must be at least 1")
		}
	}
	c.answer = func(id string, now time.Time, completion int) any {
		return map[string]any{
			"id": "resp_" + id, "object": "response", "created_at": now.Unix(), "status": "completed", "model": r.Model,
			"error": nil,
			"output": []any{map[string]any{
				"type": "message", "id": "msg_" + id, "status": "completed", "role": "assistant",
				"content": []any{map[string]any{
					"type": "output_text", "text": standIn(completion),
					"annotations": []any{},
				}},
			}},
			"usage": map[string]any{
				"input_tokens": c.prompt, "input_tokens_details": map[string]any{"cached_tokens": 0},
				"output_tokens": completion, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
				"total_tokens": c.prompt + completion,
			},
		}
	}
	return c, nil
}

func embeddingsCall(r request) (priced, error) {
	texts, err := textsOf(r.Input)
	if err != nil || r.Model == "" {
		return priced{}, errors.Join(err, missingModel(r.Model))
	}
	c := priced{prompt: sum(texts)}
	c.answer = func(id string, _ time.Time, _ int) any {
		var data []any
		for i := range texts {
			vector := make([]float64, dimensions)
			for j := range vector {
				vector[j] = float64(int(id[(i+j)%len(id)])%16) / 16
			}
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": vector})
		}
		return map[string]any{
			"object": "list", "model": r.Model, "data": data, "usage": map[string]any{
				"prompt_tokens": c.prompt,
				"total_tokens":  c.prompt,
			},
		}
	}
	return c, nil
}

func completionCall(r request) (priced, error) {
	texts, err := textsOf(r.Prompt)
	if err != nil || r.Model == "" {
		return priced{}, errors.Join(err, missingModel(r.Model))
	}
	c := priced{prompt: sum(texts), most: maxTokensDefault * len(texts)}
	if r.MaxTokens != nil {
		c.most = max(1, *r.MaxTokens) * len(texts)
	}
	c.answer = func(id string, now time.Time, completion int) any {
		var choices []any
		for i := range texts {
			choices = append(choices, map[string]any{
				"index": i, "text": "A stand-in for an answer.", "logprobs": nil,
				"finish_reason": "stop",
			})
		}
		return map[string]any{
			"id": "cmpl-" + id, "object": "text_completion", "created": now.Unix(), "model": r.Model,
			"choices": choices,
			"usage":   usage(c.prompt, completion),
		}
	}
	return c, nil
}

func moderationCall(r request) (priced, error) {
	texts, err := textsOf(r.Input)
	if err != nil {
		return priced{}, err
	}
	return priced{answer: func(id string, _ time.Time, _ int) any {
		var results []any
		for range texts {
			results = append(results, map[string]any{
				"flagged": false, "categories": map[string]any{},
				"category_scores": map[string]any{},
			})
		}
		return map[string]any{"id": "modr-" + id, "model": "omni-moderation-latest", "results": results}
	}}, nil
}

func missingModel(model string) error {
	if model == "" {
		return errors.New("you must provide a model parameter")
	}
	return nil
}
