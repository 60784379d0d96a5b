package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	openaishared "github.com/openai/openai-go/v3/shared"
)

// answerLine is a line of an output or error file, as OpenAI documents it. OpenAI's client has types for its fields,
// and none for the line.
type answerLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *openai.BatchError `json:"error"`
}

// answers is the number of lines of the files.
type answers struct{ good, bad int }

// readAnswers fails unless each request has one line in one of the files, and OpenAI's client can decode it.
func readAnswers(t *testing.T, input mixed, out, errors string) (a answers) {
	t.Helper()
	seen := map[string]int{}
	a.good = eachAnswer(t, out, func(l answerLine) {
		seen[l.CustomID]++
		wantAnswer(t, input, l)
	})
	a.bad = eachAnswer(t, errors, func(l answerLine) {
		seen[l.CustomID]++
		wantRefusal(t, input, l)
	})
	for id := range input.kinds {
		if seen[id] != 1 {
			t.Errorf("%s has %d lines", id, seen[id])
		}
	}
	if len(seen) != len(input.kinds) {
		t.Errorf("%d names have lines, %d were asked for", len(seen), len(input.kinds))
	}
	return a
}

// eachAnswer counts the lines of a file.
func eachAnswer(t *testing.T, name string, visit func(answerLine)) (n int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	ids := map[string]bool{}
	for lines.Scan() {
		n++
		var l answerLine
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%s, line %d: %v", name, n, err)
		}
		if l.ID == "" || ids[l.ID] || l.Response == nil || l.Response.RequestID == "" || l.Error != nil {
			t.Fatalf("%s, line %d: %s", name, n, lines.Text())
		}
		ids[l.ID] = true
		visit(l)
	}
	return n
}

// wantAnswer fails unless OpenAI's client decodes the body, and the body has the answer for the kind of request.
func wantAnswer(t *testing.T, input mixed, l answerLine) {
	t.Helper()
	kind, model := input.kinds[l.CustomID], input.models[l.CustomID]
	var err error
	good := l.Response.StatusCode == http.StatusOK
	switch kind {
	case kindSmallChat, kindLargeChat:
		var c openai.ChatCompletion
		err = json.Unmarshal(l.Response.Body, &c)
		good = good && len(c.Choices) == 1 && c.Choices[0].Message.Content != "" && c.Usage.TotalTokens > 0 &&
			c.Model == model
	case kindResponse:
		var r responses.Response
		err = json.Unmarshal(l.Response.Body, &r)
		good = good && r.OutputText() != "" && r.Status == responses.ResponseStatusCompleted && r.Usage.TotalTokens > 0 &&
			r.Model == model
	case kindEmbedding:
		var e openai.CreateEmbeddingResponse
		err = json.Unmarshal(l.Response.Body, &e)
		good = good && len(e.Data) > 0 && len(e.Data[0].Embedding) > 0 && e.Usage.TotalTokens > 0 && e.Model == model
	default:
		good = false
	}
	if err != nil || !good {
		t.Errorf("%s, a %s, is in the output file: %v: %d %s", l.CustomID, kind, err, l.Response.StatusCode, l.Response.Body)
	}
}

// wantRefusal fails unless OpenAI's client decodes the provider's refusal of an invalid request.
func wantRefusal(t *testing.T, input mixed, l answerLine) {
	t.Helper()
	kind := input.kinds[l.CustomID]
	var body struct {
		Error openaishared.ErrorObject `json:"error"`
	}
	err := json.Unmarshal(l.Response.Body, &body)
	if err != nil || kind != kindRefused || l.Response.StatusCode != http.StatusBadRequest || body.Error.Message == "" ||
		body.Error.Type != "invalid_request_error" {
		t.Errorf("%s, a %s, is in the error file: %v: %d %s", l.CustomID, kind, err, l.Response.StatusCode, l.Response.Body)
	}
}
