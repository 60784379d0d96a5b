package enqueue

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// odd answers each request with the status and the body that its model names, without a network.
type odd map[string]struct {
	status int
	body   string
}

func (o odd) RoundTrip(q *http.Request) (*http.Response, error) {
	request, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	for model, answer := range o {
		if bytes.Contains(request, []byte(`"`+model+`"`)) {
			return &http.Response{
				StatusCode: answer.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: q, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader(answer.body)),
			}, nil
		}
	}
	return nil, io.ErrUnexpectedEOF
}

// Errors with a good status go to the error file with the provider's text, and answers to the other with their status.
func TestAnswersThatOnlyLookGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := odd{
			"made":       {201, `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`},
			"silent":     {200, `{"choices":[{"message":{"content":""},"finish_reason":"length"}]}`},
			"openrouter": {200, `{"choices":[{"finish_reason":"error","error":{"code":502,"message":"upstream gone"}}]}`},
			"minimax":    {200, `{"choices":null,"base_resp":{"status_code":2013,"status_msg":"invalid params"}}`},
			"ernie":      {200, `{"error_code":336003,"error_msg":"messages is empty"}`},
			"accepted":   {202, `{}`},
			"page":       {200, `<html>log in</html>`},
		}
		want := map[string]string{
			"openrouter": "upstream gone", "minimax": "invalid params", "ernie": "messages is empty",
			"accepted": "202 Accepted: the answer has no choices", "page": "not a JSON object",
		}
		var lines []string
		for model := range answers {
			lines = append(lines, strings.ReplaceAll(line(model, 10), `"model":"m"`, `"model":"`+model+`"`))
		}
		w := newWorld(t)
		w.work(t, answers)
		folder := t.TempDir()
		out, errs := filepath.Join(folder, "out.jsonl"), filepath.Join(folder, "err.jsonl")
		c := w.call(t, "batch", write(t, "in.jsonl", strings.Join(lines, "\n")), "--limit", "openai", "--out", out,
			"--errors", errs, "--retries", "0")
		if c.code != cli.ExitFailed {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		good := map[string]int{}
		for _, answer := range documented(t, out) {
			good[answer.CustomID] = answer.Response.StatusCode
		}
		if len(good) != 2 || good["made"] != 201 || good["silent"] != 200 {
			t.Errorf("good: %v", good)
		}
		for _, fault := range documented(t, errs) {
			if fault.Error == nil || !strings.Contains(fault.Error.Message, want[fault.CustomID]) || want[fault.CustomID] == "" {
				t.Errorf("%s: %+v", fault.CustomID, fault.Error)
			}
			delete(want, fault.CustomID)
		}
		if len(want) > 0 {
			t.Errorf("no errors for %v", want)
		}
	})
}
