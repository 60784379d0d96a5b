package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/bucket"
)

// Whatever a model writes, an answer is good, and an error with the same text is not.
func FuzzJudgeContent(f *testing.F) {
	f.Add("hi", "stop")
	f.Add("", "length")
	f.Add(`{"error":{"code":429}}`, "tool_calls")
	f.Add("rate limit, try again in 5s", "content_filter")
	f.Add("0", "")
	f.Fuzz(func(t *testing.T, content, reason string) {
		made := func(value any) openai.Verdict {
			body, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			return openai.Judge(openai.Reply{Endpoint: openai.Chat, Status: http.StatusOK, Body: body}, noon)
		}
		type object = map[string]any
		if reason == "" || strings.Contains(reason, "stop") || strings.Contains(reason, "tool") {
			v := made(object{"error": nil, "choices": []object{{
				"message": object{"content": content, "error": content}, "finish_reason": reason,
			}}})
			if v.Kind != httpcall.Good {
				t.Errorf("%q, %q: %+v", content, reason, v)
			}
		}
		v := made(object{"id": content, "error": object{"message": "x" + content, "type": reason}})
		if v.Kind == httpcall.Good || !strings.HasPrefix(v.Message, "x") {
			t.Errorf("error %q, %q: %+v", content, reason, v)
		}
		v = made(object{"choices": []object{{"message": object{"content": content}, "finish_reason": "error"}}})
		if v.Kind != httpcall.Failed {
			t.Errorf("finish reason, %q: %+v", content, v)
		}
	})
}

// No answer is good that has no list with something in it, and no wait is out of range.
func FuzzJudge(f *testing.F) {
	for _, rows := range []map[string]judged{good, within, unusable, refusals} {
		for _, c := range rows {
			f.Add(max(c.status, http.StatusOK), c.header["Retry-After"], []byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		h := http.Header{"Retry-After": {after}}
		for _, endpoint := range openai.Endpoints() {
			v := openai.Judge(openai.Reply{Endpoint: endpoint, Status: status, Header: h, Body: body}, noon)
			if v.Wait < 0 || v.Wait > bucket.MaxWait || v.Kind == "" {
				t.Fatalf("%+v", v)
			}
			if v.Kind != httpcall.Good {
				continue
			}
			var fields map[string]any
			if json.Unmarshal(body, &fields) != nil || status >= 300 {
				t.Fatalf("%d %q is good", status, body)
			}
			something := false
			for name, value := range fields {
				switch value := value.(type) {
				case []any:
					something = something || len(value) > 0 || strings.EqualFold(name, "output")
				case map[string]any:
					something = something || len(value) > 0
				}
			}
			if !something {
				t.Fatalf("%q is good for %s", body, endpoint)
			}
		}
	})
}
