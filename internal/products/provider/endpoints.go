package provider

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"text/template"
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
	Input               json.RawMessage `json:"input"`
	Prompt              json.RawMessage `json:"prompt"`
	Instructions        string          `json:"instructions"`
	MaxOutputTokens     *int            `json:"max_output_tokens"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Metadata map[string]string `json:"metadata"`
	User     string            `json:"user"` // the tenant
}

// priced is the charge of one request: the tokens of its prompt, and the most of its answer. Texts are the inputs of a
// request that has several.
type priced struct {
	prompt, most int
	texts        []int
}

// endpoint serves an endpoint, with the answer of that name. All but ticks and moderations need a model.
func (s *Server) endpoint(name string, price func(request) (priced, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
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
		case req.Stream && answers.Lookup(name+".stream") == nil:
			err = errors.New("'stream' is not supported here")
		case req.Model == "" && name != "tick" && name != "moderation":
			err = errors.New("you must provide a model parameter")
		default:
			call, err = price(req)
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
			return
		}
		ch := s.characterOf(body)
		a := answer{ID: ch.id, Created: now.Unix(), Request: req, Prompt: call.prompt, Texts: call.texts}
		if call.most > 0 {
			a.Completion = max(1, int(math.Round(ch.share*float64(call.most))))
		}
		s.serve(w, r, now, job{
			task:   cmp.Or(req.Metadata["headway_task"], req.Metadata["custom_id"], req.ID),
			tenant: req.User, character: ch, answer: a.text(name), stream: a.stream(name),
			prompt: float64(a.Prompt), estimate: float64(a.Prompt + call.most), used: float64(a.Total()),
		})
	}
}

// answer is what the templates show.
type answer struct {
	ID                 string
	Created            int64
	Request            request
	Prompt, Completion int
	Texts              []int
}

// Total is all tokens of the call.
func (a answer) Total() int { return a.Prompt + a.Completion }

// Words are the parts of a streamed answer.
func (a answer) Words() []string {
	return []string{"A stand-in ", "for an answer ", fmt.Sprintf("of %d tokens.", a.Completion)}
}

// WithUsage says whether a stream ends with the usage.
func (a answer) WithUsage() bool { return a.Request.StreamOptions.IncludeUsage }

// Vector is the embedding of a text.
func (a answer) Vector(text int) []float64 {
	vector := make([]float64, dimensions)
	for j := range vector {
		vector[j] = float64(int(a.ID[(text+j)%len(a.ID)])%16) / 16
	}
	return vector
}

//go:embed answers.tmpl
var answersText string

//nolint:gochecknoglobals // parsed once, never changed
var answers = template.Must(template.New("").Funcs(template.FuncMap{
	"json": func(value any) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	},
	"add": func(a, b int) int { return a + b },
}).Parse(answersText))

// Compact is a part of the answer in one line.
func (a answer) Compact(name string) (string, error) {
	var b bytes.Buffer
	err := json.Compact(&b, a.text(name))
	return b.String(), err
}

// text is the answer of an endpoint.
func (a answer) text(endpoint string) json.RawMessage {
	var b bytes.Buffer
	if err := answers.ExecuteTemplate(&b, endpoint, a); err != nil {
		panic(err) // a fault of the template
	}
	return b.Bytes()
}

// stream is the answer of an endpoint as events; empty if the request asks for none.
func (a answer) stream(endpoint string) string {
	if !a.Request.Stream {
		return ""
	}
	return string(a.text(endpoint + ".stream"))
}

// tickCall is a call without an LLM: one request, no tokens.
func tickCall(request) (priced, error) { return priced{}, nil }

// chatCall charges a quarter of the characters in all messages, rounded up, and the largest number of tokens of the
// answer.
func chatCall(r request) (priced, error) {
	c := priced{most: bound(cmp.Or(r.MaxCompletionTokens, r.MaxTokens))}
	switch {
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
	return c, nil
}

// bound is the bound of an answer, as its request has it.
func bound(most *int) int {
	if most == nil {
		return maxTokensDefault
	}
	return *most
}

// messageCall is that of a chat, of Anthropic.
func messageCall(r request) (priced, error) {
	if r.MaxTokens == nil {
		return priced{}, errors.New("max_tokens: Field required")
	}
	return chatCall(r)
}

func responseCall(r request) (priced, error) {
	var input any
	if err := json.Unmarshal(r.Input, &input); err != nil {
		return priced{}, errors.New("'input' must be a text or a list")
	}
	c := priced{
		prompt: (characters(input) + utf8.RuneCountInString(r.Instructions) + 3) / 4, most: bound(r.MaxOutputTokens),
	}
	if c.most < 1 {
		return priced{}, errors.New("'max_output_tokens' must be at least 1")
	}
	return c, nil
}

func embeddingsCall(r request) (priced, error) {
	texts, err := textsOf(r.Input)
	return priced{prompt: sum(texts), texts: texts}, err
}

func completionCall(r request) (priced, error) {
	texts, err := textsOf(r.Prompt)
	return priced{prompt: sum(texts), most: max(1, bound(r.MaxTokens)) * len(texts), texts: texts}, err
}

func moderationCall(r request) (priced, error) {
	texts, err := textsOf(r.Input)
	return priced{texts: texts}, err
}
