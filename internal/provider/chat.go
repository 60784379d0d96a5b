package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"
	"unicode/utf8"
)

// maxTokensDefault is assumed where a request does not bound its answer.
const maxTokensDefault = 16

// chatRequest is the part of a chat completion request that the provider looks at.
type chatRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	MaxTokens           *int              `json:"max_tokens"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	Stream              bool              `json:"stream"`
	Metadata            map[string]string `json:"metadata"`
	User                string            `json:"user"` // the tenant
}

func (r *chatRequest) validate() error {
	switch {
	case r.Model == "":
		return errors.New("you must provide a model parameter")
	case len(r.Messages) == 0:
		return errors.New("'messages' must not be empty")
	case r.maxTokens() < 1:
		return errors.New("'max_tokens' must be at least 1")
	case r.Stream:
		return errors.New("'stream' is not supported here")
	}
	return nil
}

func (r *chatRequest) maxTokens() int {
	switch {
	case r.MaxCompletionTokens != nil:
		return *r.MaxCompletionTokens
	case r.MaxTokens != nil:
		return *r.MaxTokens
	default:
		return maxTokensDefault
	}
}

// promptTokens is a quarter of the characters in all messages, rounded up.
func (r *chatRequest) promptTokens() (int, error) {
	characters := 0
	for i, m := range r.Messages {
		n, err := contentCharacters(m.Content)
		if err != nil {
			return 0, fmt.Errorf("messages[%d].content: %w", i, err)
		}
		characters += n
	}
	return (characters + 3) / 4, nil
}

// contentCharacters counts the text of a message: a string, a list of parts, or null.
func contentCharacters(content json.RawMessage) (int, error) {
	if len(content) == 0 || bytes.Equal(content, []byte("null")) {
		return 0, nil
	}
	if content[0] == '"' {
		var text string
		err := json.Unmarshal(content, &text)
		return utf8.RuneCountInString(text), err
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return 0, err
	}
	characters := 0
	for _, p := range parts {
		characters += utf8.RuneCountInString(p.Text)
	}
	return characters, nil
}

// task is the ID that the request gives in its metadata, or nothing.
func (r *chatRequest) task() string {
	if id := r.Metadata["headway_task"]; id != "" {
		return id
	}
	return r.Metadata["custom_id"]
}

// character is what a request's bytes and the seed decide about its answer.
type character struct {
	id      string
	latency time.Duration
	share   float64 // of max_tokens
}

func (s *Server) characterOf(body []byte) character {
	h := sha256.New()
	_ = binary.Write(h, binary.BigEndian, s.cfg.Seed)
	h.Write(body)
	sum := h.Sum(nil)
	// Each part is a uniform number from 0 to 1.
	part := func(at int) float64 { return float64(binary.BigEndian.Uint32(sum[at:])) / math.MaxUint32 }
	return character{
		id:      hex.EncodeToString(sum[:12]),
		latency: s.cfg.MinLatency + time.Duration(part(16)*float64(s.cfg.MaxLatency-s.cfg.MinLatency)),
		share:   s.cfg.UsedMin + part(20)*(s.cfg.UsedMax-s.cfg.UsedMin),
	}
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	now := s.cfg.NowFunc()
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var req chatRequest
	err := json.Unmarshal(body, &req)
	if err == nil {
		err = req.validate()
	}
	var prompt int
	if err == nil {
		prompt, err = req.promptTokens()
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
		return
	}
	task := r.Header.Get(TaskHeader)
	if task == "" {
		task = req.task()
	}
	ch := s.characterOf(body)
	completion := max(1, int(math.Round(ch.share*float64(req.maxTokens()))))
	s.serve(w, r, now, job{
		task:      task,
		tenant:    req.User,
		prompt:    float64(prompt),
		estimate:  float64(prompt + req.maxTokens()),
		used:      float64(prompt + completion),
		character: ch,
		answer:    completionOf(ch.id, req.Model, now, prompt, completion),
	})
}

// completionOf is the body of an answer, a chat.completion object.
func completionOf(id, model string, now time.Time, prompt, completion int) any {
	return map[string]any{
		"id":      "chatcmpl-" + id,
		"object":  "chat.completion",
		"created": now.Unix(),
		"model":   model,
		"choices": []any{map[string]any{
			"index": 0,
			"message": map[string]any{
				"role":    "assistant",
				"content": fmt.Sprintf("A stand-in for an answer of %d tokens.", completion),
				"refusal": nil,
			},
			"logprobs":      nil,
			"finish_reason": "stop",
		}},
		"usage": map[string]any{
			"prompt_tokens":     prompt,
			"completion_tokens": completion,
			"total_tokens":      prompt + completion,
		},
	}
}
