package llm_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// An endless answer is cut off at its bound, and its request is not retried. The status still decides the kind of an
// error.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	for _, code := range []int{200, 400, 503} {
		for size, fits := range map[int]bool{most - 2: true, most - 1: false, 1 << 30: false} {
			client := provider(t, llm.Config{MaxBody: most}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, _ = io.WriteString(w, "{")
				for left := size; left > 0; left -= 1 << 10 {
					if _, err := io.WriteString(w, strings.Repeat(" ", min(left, 1<<10))); err != nil {
						return
					}
				}
				_, _ = io.WriteString(w, "}")
			})
			_, err := client.Run(t.Context(), newChat(t, hello), nil)
			large, permanent := errors.Is(err, llm.ErrTooLarge), errors.Is(err, tasks.ErrPermanent)
			failed, _ := errors.AsType[*llm.Error](err)
			if code == 200 && (large == fits || permanent == fits) ||
				code != 200 && (large || failed == nil || failed.StatusCode != code || permanent != (code == 400) ||
					len(failed.Body) > 64<<10) {
				t.Errorf("%d with %d bytes: %v", code, size+2, err)
			}
		}
	}
}

// An unusable answer must not be stored as a good one, and its request is made once.
func TestAGoodStatusIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code       int
		body, text string
	}{
		"page":          {200, "<html>", "not a JSON object"},
		"nothing":       {200, "", "is empty"},
		"list":          {200, "[]", "not a JSON object"},
		"error":         {200, `{"error":{"message":"overloaded"}}`, "overloaded"},
		"redirect":      {307, "", "/v1/chat/completions"},
		"and an answer": {302, done, "/v1/chat/completions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			client := provider(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", r.URL.Path)
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := client.Run(t.Context(), newChat(t, hello), nil)
			e, ok := errors.AsType[*llm.Error](err)
			if !ok || e.StatusCode != c.code || errors.Is(err, tasks.ErrPermanent) || !strings.Contains(err.Error(),
				c.text) {
				t.Fatal(err)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
}

// A failed response is a failure, with the reason.
func TestAFailedResponseIsAFailure(t *testing.T) {
	t.Parallel()
	const body = `{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"x"},"usage":null}`
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	})
	_, err := client.Run(t.Context(), llm.Call{
		Endpoint: llm.EndpointResponses,
		Request:  []byte(`{"model":"m","input":"hi"}`),
	}, nil)
	e, ok := errors.AsType[*llm.Error](err)
	if !ok || e.Code != "server_error" || string(e.Body) != body || errors.Is(err, tasks.ErrPermanent) {
		t.Errorf("%v", err)
	}
}

// The mark of UTF-8 before an answer is not a part of it.
func TestAMarkBeforeAnAnswer(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "\ufeff"+done)
	})
	answer, err := client.Run(t.Context(), newChat(t, hello), nil)
	if err != nil || string(answer.Body) != done {
		t.Errorf("%s, %v", answer.Body, err)
	}
}
