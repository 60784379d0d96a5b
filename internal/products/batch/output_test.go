package batch_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/batch"
)

// The lines are from the guide, except the bodies, which the guide writes on several lines.
func TestOutputLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out  batches.Result
		want string
	}{
		"answered": {
			batches.Result{CustomID: "request-2", Response: &batches.Response{
				StatusCode: 200, RequestID: "req_c187b3", Body: []byte("{\n  \"id\": \"chatcmpl-9758Iw\",\n  \"n\": " +
					"1e400\n}\n"),
			}},
			`{"id": "ID", "custom_id": "request-2", "response": {"status_code": 200, "request_id": "req_c187b3",` +
				` "body": {"id":"chatcmpl-9758Iw","n":1e400}}, "error": null}`,
		},
		"expired": {
			batches.Result{CustomID: "request-3", Failure: &batches.Failure{
				Code: "batch_expired", Message: "This request could not be executed before the completion window " +
					"expired.",
			}},
			`{"id": "ID", "custom_id": "request-3", "response": null, "error": {"code": "batch_expired", ` +
				`"message": "This request could not be executed before the completion window expired."}}`,
		},
		"not JSON": {
			batches.Result{CustomID: `<a> "b" &`, Response: &batches.Response{
				StatusCode: 502,
				Body:       []byte("<html>\n\xff"),
			}},
			`{"id": "ID", "custom_id": "<a> \"b\" &", "response": {"status_code": 502, "request_id": "", "body": "<html>\n` +
				"\uFFFD" + `"}, "error": null}`,
		},
		"cut off": {
			batches.Result{Response: &batches.Response{Body: []byte(`{"a": [1, 2`)}},
			`{"id": "ID", "custom_id": "", "response": {"status_code": 0, "request_id": "", "body": "{\"a\": [1, 2"}, ` +
				`"error": null}`,
		},
		"no body": {
			batches.Result{Response: &batches.Response{StatusCode: 204}},
			`{"id": "ID", "custom_id": "", "response": {"status_code": 204, "request_id": "", "body": {}}, "error": null}`,
		},
		"bad text": {
			batches.Result{Response: &batches.Response{Body: []byte("{\"a\":\"\xff\"}")}},
			`{"id": "ID", "custom_id": "", "response": {"status_code": 0, "request_id": "", "body": {"a":"` + "\uFFFD" +
				`"}}, "error": null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := strings.Replace(c.want, "ID", decode(t, c.out).ID, 1) + "\n"
			if diff := cmp.Diff(want, string(batch.AppendOutput(nil, c.out))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// line is BatchRequestOutput. openai-go has types for its fields, but not for the line.
type line struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *openai.BatchError `json:"error"`
}

func decode(t *testing.T, o batches.Result) line {
	t.Helper()
	var l line
	d := json.NewDecoder(bytes.NewReader(batch.AppendOutput(nil, o)))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		t.Fatal(err)
	}
	return l
}

func into[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOfficialTypesReadTheLines(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) batches.Result {
		return batches.Result{
			CustomID: "a",
			Response: &batches.Response{StatusCode: status, RequestID: "req_1", Body: []byte(body)},
		}
	}
	l := decode(t,
		answer(200,
			`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
				`"content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`))
	if chat := into[openai.ChatCompletion](t, l.Response.Body); chat.Choices[0].Message.Content != "4" ||
		chat.Usage.TotalTokens != 3 || l.Error != nil || l.CustomID != "a" {
		t.Errorf("chat %+v of %+v", chat, l)
	}
	l = decode(t,
		answer(200,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],"model":"m",`+
				`"usage":{"prompt_tokens":1,"total_tokens":1}}`))
	if e := into[openai.CreateEmbeddingResponse](t, l.Response.Body); len(e.Data) != 1 || e.Data[0].Embedding[1] != -1 {
		t.Errorf("embedding %+v", e)
	}
	l = decode(t,
		answer(200,
			`{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"m","role":"assistant",`+
				`"status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}],`+
				`"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`))
	if r := into[responses.Response](t, l.Response.Body); r.OutputText() != "hi" {
		t.Errorf("response %+v", r)
	}
	l = decode(t,
		answer(400,
			`{"error":{"message":"too long","type":"invalid_request_error","param":"messages",`+
				`"code":"context_length_exceeded"}}`))
	e := into[struct {
		Error shared.ErrorObject `json:"error"`
	}](t, l.Response.Body)
	if e.Error.Code != "context_length_exceeded" || e.Error.Param != "messages" || l.Error != nil ||
		l.Response.StatusCode != 400 {
		t.Errorf("4xx %+v", e)
	}
	l = decode(t, batches.Result{Failure: &batches.Failure{Code: "batch_cancelled", Message: "m"}})
	if l.Response != nil || l.Error.Code != "batch_cancelled" || l.Error.Message != "m" {
		t.Errorf("error %+v", l.Error)
	}
}

func TestOutputID(t *testing.T) {
	t.Parallel()
	idOf := func(batch string, line int) string { return decode(t, batches.Result{Batch: batch, Line: line}).ID }
	const want = "batch_req_" // followed by 32 digits
	id := idOf("b", 1)
	if !strings.HasPrefix(id, want) || len(id) != len(want)+32 || id != idOf("b", 1) || id == idOf("b", 2) ||
		id == idOf("c", 1) {
		t.Error(id)
	}
}

func FuzzOutput(f *testing.F) {
	f.Add("a", []byte(`{"a": 1}`))
	f.Add("\xff\n", []byte("\xff\n{"))
	f.Add("\u2028", []byte("\"\u2028\""))
	f.Fuzz(func(t *testing.T, id string, body []byte) {
		b := batch.AppendOutput(nil, batches.Result{
			CustomID: id, Response: &batches.Response{Body: body},
			Failure: &batches.Failure{Message: id},
		})
		if !json.Valid(b) || !utf8.Valid(b) || bytes.Count(b, []byte("\n")) != 1 || b[len(b)-1] != '\n' {
			t.Errorf("%q", b)
		}
	})
}
