package llm_test

import (
	"bytes"
	"io"
	"log/slog"
	"math"
	"net/http"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// fixed answers each request with the same.
type fixed struct {
	status int
	body   []byte
}

func (a fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// Whatever a provider answers, what is charged is a number of tokens that a call can have used.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		done, "", "null", "[]", "{}", `{"error":{}}`, `{"error":"no"}`, `{"error":null,"id":1}`,
		`{"usage":{"prompt_tokens":-1}}`, `{"id":1,"usage":{"total_tokens":1e300}}`,
		`{"id":1,"usage":{"prompt_tokens":1e9,"completion_tokens":1e9,"total_tokens":1}}`, `{"id":"` + secret +
			`","choices":[]}`, `{"id":1,"usage":[]}`, "{\"id\":\"\xff\"}",
	} {
		for _, status := range []int{200, 307, 400, 401, 429, 500} {
			f.Add(status, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		client, err := llm.NewClient(llm.Config{
			BaseURL: "http://provider/v1", APIKey: secret, HTTPClient: &http.Client{Transport: fixed{
				status,
				body,
			}}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		chat := newChat(t, hello)
		answer, err := client.Run(t.Context(), chat, func(used reservations.Tokens) {
			for meter, n := range used {
				if math.IsNaN(n) || n < 0 || n > 20*chat.Taken[0].Tokens[meter] {
					t.Errorf("used %v of %s", n, meter)
				}
			}
		})
		if bytes.Contains(answer.Body, []byte(secret)) || err != nil && bytes.Contains([]byte(err.Error()),
			[]byte(secret)) {
			t.Errorf("%s, %v", answer.Body, err)
		}
	})
}
