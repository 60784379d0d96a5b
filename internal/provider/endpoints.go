package provider

import (
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

// otherRequest is the part of a request to another endpoint than chat completions that the provider looks at.
type otherRequest struct {
	Model           string            `json:"model"`
	Input           json.RawMessage   `json:"input"`
	Prompt          json.RawMessage   `json:"prompt"`
	Instructions    string            `json:"instructions"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	MaxTokens       *int              `json:"max_tokens"`
	Stream          bool              `json:"stream"`
	Metadata        map[string]string `json:"metadata"`
	User            string            `json:"user"` // the tenant
}

// otherCall is what one request is worth, and its answer: most of them are answer tokens, bounded.
type otherCall struct {
	prompt, most int
	answer       func(id string, now time.Time, completion int) any
}

// other serves an endpoint.
func (s *Server) other(read func(otherRequest) (otherCall, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := s.cfg.NowFunc()
		body, ok := readBody(w, r)
		if !ok {
			return
		}
		var (
			req  otherRequest
			call otherCall
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
		task := r.Header.Get(TaskHeader)
		if task == "" {
			task = (&chatRequest{Metadata: req.Metadata}).task()
		}
		ch := s.characterOf(body)
		completion := 0
		if call.most > 0 {
			completion = max(1, int(math.Round(ch.share*float64(call.most))))
		}
		s.serve(w, r, now, job{
			task: task, tenant: req.User, character: ch,
			estimate: float64(call.prompt + call.most), used: float64(call.prompt + completion),
			answer: call.answer(ch.id, now, completion),
		})
	}
}

func responseCall(r otherRequest) (otherCall, error) {
	if r.Model == "" {
		return otherCall{}, errors.New("you must provide a model parameter")
	}
	var input any
	if err := json.Unmarshal(r.Input, &input); err != nil {
		return otherCall{}, errors.New("'input' must be a text or a list")
	}
	c := otherCall{prompt: (characters(input) + utf8.RuneCountInString(r.Instructions) + 3) / 4, most: maxTokensDefault}
	if r.MaxOutputTokens != nil {
		if c.most = *r.MaxOutputTokens; c.most < 1 {
			return otherCall{}, errors.New("'max_output_tokens' must be at least 1")
		}
	}
	c.answer = func(id string, now time.Time, completion int) any {
		text := fmt.Sprintf("A stand-in for an answer of %d tokens.", completion)
		return map[string]any{
			"id": "resp_" + id, "object": "response", "created_at": now.Unix(), "status": "completed", "model": r.Model, "error": nil,
			"output": []any{map[string]any{
				"type": "message", "id": "msg_" + id, "status": "completed", "role": "assistant",
				"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}},
			}},
			"usage": map[string]any{
				"input_tokens": c.prompt, "input_tokens_details": map[string]any{"cached_tokens": 0},
				"output_tokens": completion, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": c.prompt + completion,
			},
		}
	}
	return c, nil
}

func embeddingsCall(r otherRequest) (otherCall, error) {
	texts, err := textsOf(r.Input)
	if err != nil || r.Model == "" {
		return otherCall{}, errors.Join(err, missingModel(r.Model))
	}
	c := otherCall{prompt: sum(texts)}
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
			"object": "list", "model": r.Model, "data": data, "usage": map[string]any{"prompt_tokens": c.prompt, "total_tokens": c.prompt},
		}
	}
	return c, nil
}

func completionCall(r otherRequest) (otherCall, error) {
	texts, err := textsOf(r.Prompt)
	if err != nil || r.Model == "" {
		return otherCall{}, errors.Join(err, missingModel(r.Model))
	}
	c := otherCall{prompt: sum(texts), most: maxTokensDefault * len(texts)}
	if r.MaxTokens != nil {
		c.most = max(1, *r.MaxTokens) * len(texts)
	}
	c.answer = func(id string, now time.Time, completion int) any {
		var choices []any
		for i := range texts {
			choices = append(choices, map[string]any{"index": i, "text": "A stand-in for an answer.", "logprobs": nil, "finish_reason": "stop"})
		}
		return map[string]any{
			"id": "cmpl-" + id, "object": "text_completion", "created": now.Unix(), "model": r.Model, "choices": choices,
			"usage": map[string]any{"prompt_tokens": c.prompt, "completion_tokens": completion, "total_tokens": c.prompt + completion},
		}
	}
	return c, nil
}

func moderationCall(r otherRequest) (otherCall, error) {
	texts, err := textsOf(r.Input)
	if err != nil {
		return otherCall{}, err
	}
	return otherCall{answer: func(id string, _ time.Time, _ int) any {
		var results []any
		for range texts {
			results = append(results, map[string]any{"flagged": false, "categories": map[string]any{}, "category_scores": map[string]any{}})
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

// textsOf are the tokens of each text: a quarter of its characters, rounded up, or its token ids.
func textsOf(raw json.RawMessage) ([]int, error) {
	var value any
	if len(raw) == 0 || json.Unmarshal(raw, &value) != nil || value == nil {
		return nil, errors.New("a text, or a list of texts, is missing")
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	} else if _, ids := first(list).(float64); ids {
		list = []any{list}
	}
	if len(list) == 0 {
		return nil, errors.New("the list of texts is empty")
	}
	texts := make([]int, len(list))
	for i, one := range list {
		if ids, ok := one.([]any); ok {
			texts[i] = len(ids)
			continue
		}
		texts[i] = (characters(one) + 3) / 4
	}
	return texts, nil
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// characters counts the texts of an input, wherever they stand.
func characters(value any) (n int) {
	switch v := value.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case []any:
		for _, one := range v {
			n += characters(one)
		}
	case map[string]any:
		for _, field := range []string{"content", "text"} {
			n += characters(v[field])
		}
	}
	return n
}
