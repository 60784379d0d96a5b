package batch_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/products/batch"
)

func TestBodiesOfEveryURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url         string
		body, fault string
	}{
		{openai.Responses, `{"model":"m","input":"hi"}`, ""},
		{openai.Responses, `{"model":"m","input":[{"role":"user","content":"hi"}]}`, ""},
		{openai.Responses, `{"prompt":{"id":"pmpt_1"}}`, ""},
		{openai.Responses, `{"model":"m"}`, "body.input"},
		{openai.Responses, `{"input":"hi"}`, "body.model"},
		{openai.Embeddings, `{"model":"m","input":["a","b"]}`, ""},
		{openai.Embeddings, `{"model":"m","input":""}`, "body.input"},
		{openai.Embeddings, `{"model":"m","input":[]}`, "body.input"},
		{openai.Embeddings, `{"input":"a"}`, "body.model"},
		{openai.Completions, `{"model":"m","prompt":"a"}`, ""},
		{openai.Completions, `{"model":"m","input":"a"}`, "body.prompt"},
		{openai.Moderations, `{"input":"a"}`, ""},
		{openai.Moderations, `{"input":"a","model":7}`, "body.model"},
		{openai.Moderations, `{"model":"m"}`, "body.input"},
		{openai.Embeddings, `["a"]`, "body"},
	} {
		line, err := batch.NewReader(
			strings.NewReader(fmt.Sprintf(`{"custom_id":"a","method":"POST","url":%q,"body":%s}`, c.url, c.body)),
			batch.Config{}).Next()
		if fault, ok := errors.AsType[*batch.LineError](err); ok != (c.fault != "") || ok && fault.Field != c.fault {
			t.Errorf("%s %s: got %v, want a fault at %q", c.url, c.body, err, c.fault)
		}
		if c.fault == "" && (line.HTTP() || line.URL != c.url || string(line.Body) != c.body) {
			t.Errorf("got %+v", line)
		}
	}
}

// The urls of providers whose batch files are like OpenAI's. A new form is one row.
func TestURLsOfProviders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ url, want string }{
		"OpenAI":               {"/v1/chat/completions", openai.Chat},
		"Azure":                {"/chat/completions", openai.Chat},
		"Azure, v1":            {"/openai/v1/chat/completions", openai.Chat},
		"Azure, embeddings":    {"/embeddings", openai.Embeddings},
		"Azure, responses":     {"/v1/responses", openai.Responses},
		"Azure, deployment":    {"/openai/deployments/m/chat/completions?api-version=2024-10-21", openai.Chat},
		"Azure, another one":   {"/openai/deployments/other/chat/completions", ""},
		"Zhipu":                {"/v4/chat/completions", openai.Chat},
		"Volcengine":           {"/api/v3/chat/completions", openai.Chat},
		"OpenRouter":           {"/api/v1/chat/completions", openai.Chat},
		"DashScope":            {"/compatible-mode/v1/embeddings", openai.Embeddings},
		"Gemini":               {"/v1beta/openai/chat/completions", openai.Chat},
		"Azure, a version":     {"/chat/completions?api-version=2024-10-21", openai.Chat},
		"Fireworks":            {"/inference/v1/chat/completions", openai.Chat},
		"DeepInfra":            {"/v1/openai/embeddings", openai.Embeddings},
		"Novita":               {"/v3/openai/chat/completions", openai.Chat},
		"Cloudflare":           {"/ai/v1/chat/completions", openai.Chat},
		"Databricks":           {"/serving-endpoints/chat/completions", openai.Chat},
		"another query":        {"/v1/chat/completions?key=1", ""},
		"Anthropic":            {"/v1/messages", ""},
		"Cohere":               {"/v2/chat", ""},
		"without a slash":      {"v1/moderations", openai.Moderations},
		"with one more":        {"/v1/completions/", openai.Completions},
		"misspelt":             {"/v1/chats/completions", ""},
		"of another API":       {"/v1/images/generations", ""},
		"below another folder": {"/proxy/chat/completions", ""},
	} {
		line, err := batch.NewReader(strings.NewReader(fmt.Sprintf(`{"custom_id":"a","method":"POST","url":%q,`+
			`"body":{"model":"m","input":"a","prompt":"a","messages":[{"role":"user","content":"a"}]}}`, c.url)),
			batch.Config{}).Next()
		if errors.Is(err, batch.ErrUnknownURL) != (c.want == "") || line.URL != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, line.URL, err, c.want)
		}
	}
}

// A file of another kind is one fault, which says what to do.
func TestFilesOfOtherKinds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\x1f\x8b\x08\x00\n\n\n":   "line 1: not valid UTF-8: the file is a gzip file: unpack it first, as in zcat FILE",
		"\xff\xfe{\x00}\x00\n\x00": "line 1: not valid UTF-8: the file is UTF-16 text: write it as UTF-8 first",
		"{\x00\"\x00a\x00\n\x00":   "the file is UTF-16LE text",
	} {
		reader := batch.NewReader(strings.NewReader(in), batch.Config{})
		_, err := reader.Next()
		_, next := reader.Next()
		if !errors.Is(err, batch.ErrUTF8) || !strings.Contains(err.Error(), want) || !errors.Is(next, io.EOF) {
			t.Errorf("%q: %v, then %v", in, err, next)
		}
	}
}

func TestHTTPLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rest  string // after custom_id
		want  batch.Line
		fault string
	}{
		{
			`"method":"GET","url":"https://api.example/a?b=c"`,
			batch.Line{Method: "GET", URL: "https://api.example/a?b=c"},
			"",
		},
		{
			`"method":"PUT","url":"http://api.example:8080/a","headers":{"X-A":"${KEY}"},"body":"text",` +
				`"charge":{"requests":2.5}`,
			batch.Line{
				Method: "PUT", URL: "http://api.example:8080/a", Headers: map[string]string{"X-A": "${KEY}"},
				Body: []byte(`"text"`), Charge: map[string]float64{"requests": 2.5},
			},
			"",
		},
		{
			`"method":"DELETE","url":"https://api.example/a","headers":null,"body":null,"charge":null`,
			batch.Line{Method: "DELETE", URL: "https://api.example/a"},
			"",
		},
		{`"method":"get","url":"https://api.example/a"`, batch.Line{}, "method"},
		{`"url":"https://api.example/a"`, batch.Line{}, "method"},
		{`"method":"GET","url":"https:///a"`, batch.Line{}, "url"},
		{
			`"method":"GET","url":"HTTP://localhost:39777/a"`,
			batch.Line{Method: "GET", URL: "HTTP://localhost:39777/a"},
			"",
		},
		{`"method":"GET","url":"Https://api.example/a"`, batch.Line{Method: "GET", URL: "Https://api.example/a"}, ""},
		{`"method":"GET","url":"ftp://api.example/a"`, batch.Line{}, "url"},
		{`"method":"GET","url":"//api.example/a"`, batch.Line{}, "url"},
		{`"method":"GET","url":"see http://api.example/a"`, batch.Line{}, "url"},
		{`"method":"POST","url":"//api.example/a","body":{}`, batch.Line{}, "url"},
		{`"method":"GET","url":"https://api.example/a","headers":{"X-A":["b"]}`, batch.Line{}, "headers"},
		{`"method":"GET","url":"https://api.example/a","charge":{"requests":"many"}`, batch.Line{}, "charge"},
		{`"method":"GET","url":"https://api.example/a","charge":2`, batch.Line{}, "charge"},
	} {
		line, err := batch.NewReader(strings.NewReader(`{"custom_id":"a",`+c.rest+"}"), batch.Config{}).Next()
		if fault, ok := errors.AsType[*batch.LineError](err); ok != (c.fault != "") || ok && fault.Field != c.fault {
			t.Errorf("%s: got %v, want a fault at %q", c.rest, err, c.fault)
		}
		if c.fault != "" {
			continue
		}
		c.want.Number, c.want.CustomID = 1, "a"
		if diff := cmp.Diff(c.want, line); diff != "" || !line.HTTP() {
			t.Error(diff)
		}
	}
}
