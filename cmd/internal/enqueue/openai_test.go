package enqueue

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/headway-go/headway/internal/setup/cli"
)

// sent stores the paths and bodies of requests to the provider.
type sent struct {
	next http.RoundTripper
	mu   sync.Mutex
	all  []string
}

func (s *sent) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.all = append(s.all, q.Method+" "+q.URL.Path+" "+string(body))
	s.mu.Unlock()
	return s.next.RoundTrip(q)
}

// requests returns the sent requests, sorted.
func (s *sent) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.all))
}

// asked returns the requests of a file in OpenAI's format, and their custom IDs in order. The bodies are unchanged
// except for spaces: each number, escape and unknown field, in the same order.
func asked(t *testing.T, file string) (requests, ids []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for raw := range bytes.Lines(text) {
		var line struct {
			CustomID    string `json:"custom_id"`
			Method, URL string
			Body        json.RawMessage
		}
		var body bytes.Buffer
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatal(err)
		}
		if err := json.Compact(&body, line.Body); err != nil {
			t.Fatal(err)
		}
		requests, ids = append(requests, line.Method+" "+line.URL+" "+body.String()), append(ids, line.CustomID)
	}
	return requests, ids
}

// documented reads a file of answers. It fails unless each line has exactly the fields of OpenAI's documentation.
func documented(t *testing.T, file string) []outputLine {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for raw := range bytes.Lines(text) {
		var line, response map[string]json.RawMessage
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(line["response"], &response); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"custom_id", "error", "id", "response"},
			slices.Sorted(maps.Keys(line))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"body", "request_id", "status_code"},
			slices.Sorted(maps.Keys(response))); response != nil && diff != "" {
			t.Error(diff)
		}
	}
	return readLines(t, file)
}

// official decodes the body of an answer into a type of OpenAI's client.
func official[T any](t *testing.T, body json.RawMessage) T {
	t.Helper()
	var answer T
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return answer
}

// answered returns whether OpenAI's client finds an answer in a body.
func answered(t *testing.T, file string, body json.RawMessage) bool {
	t.Helper()
	switch file {
	case "chat.jsonl":
		c := official[openai.ChatCompletion](t, body)
		return len(c.Choices) == 1 && c.Choices[0].Message.Content != "" && c.Usage.TotalTokens > 0
	case "embeddings.jsonl":
		e := official[openai.CreateEmbeddingResponse](t, body)
		return len(e.Data) > 0 && len(e.Data[0].Embedding) > 0 && e.Usage.TotalTokens > 0
	case "responses.jsonl":
		r := official[responses.Response](t, body)
		return r.OutputText() != "" && r.Usage.OutputTokens > 0
	case "completions.jsonl":
		c := official[openai.Completion](t, body)
		return len(c.Choices) > 0 && c.Choices[0].Text != ""
	case "moderations.jsonl":
		return len(official[openai.ModerationNewResponse](t, body).Results) > 0
	}
	return false
}

// Files from OpenAI's guide, reference and cookbook are accepted unchanged, and the answers have the documented
// format.
func TestFilesOfOpenAIsDocumentation(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"chat.jsonl", "embeddings.jsonl", "responses.jsonl", "completions.jsonl",
		"moderations.jsonl",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				upstream := &sent{next: w.judge}
				w.work(t, upstream)
				in, out := filepath.Join("testdata/openai", file), filepath.Join(t.TempDir(), "out.jsonl")
				if c := w.call(t, "batch", in, "--limit", "openai", "--out", out); c.code != cli.ExitOK {
					t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
				}
				requests, ids := asked(t, in)
				if diff := cmp.Diff(slices.Sorted(slices.Values(requests)), upstream.requests()); diff != "" {
					t.Error(diff)
				}
				for i, line := range documented(t, out) {
					r := line.Response
					if line.CustomID != ids[i] || line.Error != nil || r == nil || r.StatusCode != 200 ||
						r.RequestID == "" || !strings.HasPrefix(line.ID, "batch_req_") {
						t.Fatalf("line %d: %+v", i+1, line)
					}
					if !answered(t, file, r.Body) {
						t.Errorf("line %d: %s", i+1, r.Body)
					}
					ids[i] = ""
				}
				if strings.Join(ids, "") != "" {
					t.Errorf("no answer for %q", ids)
				}
			})
		})
	}
}

// The error file has the answer of an answered request, and the reason for any other, in the types of OpenAI's
// client.
func TestErrorLinesOfOpenAIsDocumentation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		errs := filepath.Join(t.TempDir(), "err.jsonl")
		if c := w.call(t, "batch", "testdata/openai/errors.jsonl", "--limit", "openai", "--errors", errs, "--retries",
			"0"); c.code != cli.ExitFailed {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		lines := documented(t, errs)
		if len(lines) != 2 || lines[0].CustomID != "refused" || lines[0].Error != nil || lines[0].Response == nil ||
			lines[0].Response.StatusCode != 400 {
			t.Fatalf("%+v", lines)
		}
		refusal := official[struct{ Error shared.ErrorObject }](t, lines[0].Response.Body)
		if refusal.Error.Code != "bad_thing" || refusal.Error.Type != "invalid_request_error" {
			t.Errorf("%s", lines[0].Response.Body)
		}
		if lines[1].CustomID != "unreachable" || lines[1].Response != nil || lines[1].Error == nil ||
			lines[1].Error.Code != "request_failed" || lines[1].Error.Message == "" {
			t.Errorf("%+v", lines[1])
		}
	})
}
