package enqueue

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// allURLs returns a file with a line for each supported URL.
func (w *world) allURLs() string {
	var b strings.Builder
	b.WriteString(chatLine("chat", "hi"))
	for path, body := range map[string]string{
		"/v1/responses":   `{"model":"m","input":"hi","max_output_tokens":5}`,
		"/v1/embeddings":  `{"model":"e","input":["hi","ho"]}`,
		"/v1/completions": `{"model":"m","prompt":"hi"}`, "/v1/moderations": `{"input":"hi"}`,
	} {
		fmt.Fprintf(&b, `{"custom_id":%q,"method":"POST","url":%q,"body":%s}`+"\n", path, path, body)
	}
	fmt.Fprintf(&b,
		`{"custom_id":"http","method":"POST","url":"%s/tick","headers":{"Authorization":"Bearer test"},"body":{"id":"1"},`+
			`"charge":{"requests":1,"tokens":0}}`+"\n",
		judgeURL)
	fmt.Fprintf(&b, `{"custom_id":"get","method":"GET","url":"%s/nowhere","headers":{"Authorization":"Bearer test"}}`+"\n",
		judgeURL)
	return b.String()
}

func (w *world) allowHTTP(t *testing.T) {
	t.Helper()
	host, err := url.Parse(judgeURL)
	if err != nil {
		t.Fatal(err)
	}
	w.config = write(t, "headway.yaml", requestsAndTokens+fmt.Sprintf("http: {allow_hosts: [%q]}\n", host.Host))
}

func TestEveryURL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.allowHTTP(t)
		w.work(t, nil)
		out, errs := filepath.Join(t.TempDir(), "out.jsonl"), filepath.Join(t.TempDir(), "err.jsonl")
		c := w.call(t, "batch", write(t, "in.jsonl", w.allURLs()), "--out", out, "--errors", errs, "--limit", "openai")
		if c.code != cli.ExitFailed {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if good := readLines(t, out); len(good) != 6 {
			t.Errorf("answers %+v", good)
		}
		if bad := readLines(t, errs); len(bad) != 1 || bad[0].CustomID != "get" || bad[0].Response == nil ||
			bad[0].Response.StatusCode != 404 {
			t.Errorf("errors %+v", bad)
		}
		if c = w.call(t, "retry", batchOf(t, c), "--failed"); c.code != cli.ExitOK ||
			!strings.Contains(c.out, "1 failed request is") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// With invalid lines nothing is enqueued, and each invalid line is named.
func TestBadInputIsNamedByItsLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := line("a", 5)
	for name, tc := range map[string]struct{ text, want string }{
		"no custom_id": {
			good + "\n" + `{"method":"POST","url":"/v1/chat/completions","body":{}}`,
			"line 2: custom_id",
		},
		"twice":       {good + "\n\n" + good, "line 3: custom_id"},
		"unknown url": {strings.Replace(good, "/v1/chat/completions", "/v1/images", 1), "line 1: url"},
		"body is a list": {
			`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":[]}`,
			"line 1: body",
		},
		"20 MB":           {good + "\n" + line(strings.Repeat("x", 20_000_000), 5), "line 2: line is too long"},
		"truncated":       {good + "\n" + good[:40], "line 2: the file ends in the middle"},
		"UTF-8":           {good + "\n" + strings.Replace(good, "hi", "\xff", 1) + "\n", "line 2: not valid UTF-8"},
		"too many tokens": {good + "\n" + line("b", 1_000_000_000), "line 2: body"},
		"meter of nothing": {
			`{"custom_id":"a","method":"GET","url":"http://example.com","charge":{"pages":1}}`,
			"line 1: charge",
		},
		"empty": {"\n\n", "no lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := write(t, "headway.yaml",
				"limits: {openai: {meters: {requests: 100/s, tokens: {rate: 20000/s, max_reserved: 50000}}}}")
			c := callWith(t, w.redis, w.env, tc.text, "batch", "-", "--limit", "openai", "--config", config)
			if c.code != cli.ExitUsage || !strings.Contains(c.err, tc.want) || c.pending(t) != 0 {
				t.Errorf("exit %d: %.300s", c.code, c.err)
			}
		})
	}
}

// A host that workers would refuse is a fault of its line, if the file lists hosts.
func TestHostsThatAreNotListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lines := line("a", 5) + "\n" + `{"custom_id":"b","method":"GET","url":"http://api.example.com/a"}` + "\n" +
			`{"custom_id":"c","method":"GET","url":"http://evil.test/a"}` + "\n"
		in := write(t, "in.jsonl", lines)
		w.config = write(t, "headway.yaml", requestsAndTokens+"http: {allow_hosts: [api.example.com]}\n")
		c := w.call(t, "batch", in, "--limit", "openai")
		if c.code != cli.ExitUsage || c.pending(t) != 0 ||
			!strings.Contains(c.err, `line 3: http request: url: host "evil.test"`) ||
			!strings.Contains(c.err, "http.allow_hosts") || strings.Contains(c.err, "line 2") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		w.config = write(t, "headway.yaml", requestsAndTokens)
		c = w.call(t, "batch", in, "--limit", "openai")
		if c.code != cli.ExitOK || c.pending(t) != 3 ||
			!strings.Contains(c.err,
				"warning: 2 requests have an absolute url, and "+w.config+" lists no hosts (http.allow_hosts)") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// A secret that workers would refuse is a fault of its line.
func TestSecretsThatAreNotListed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		headers := func(id, value string) string {
			return fmt.Sprintf(
				`{"custom_id":%q,"method":"GET","url":"http://api.example.com/a","headers":{"Authorization":%q}}`+"\n", id, value)
		}
		good := headers("a", "Bearer ${API_KEY}")
		in := write(t, "in.jsonl", good+headers("b", "Bearer ${OTHER_KEY}")+headers("c", "Bearer ${API_KEY"))
		w.config = write(t, "headway.yaml",
			requestsAndTokens+"http: {allow_hosts: [api.example.com], secrets: {API_KEY: [\"http://api.example.com\"]}}\n")
		c := w.call(t, "batch", in, "--limit", "openai")
		for _, want := range []string{
			"2 of 3 lines are faulty",
			`line 2: http request: header.Authorization: wants the secret "OTHER_KEY"`, "http.secrets",
			"line 3: http request: header.Authorization: has a ${ without a }",
		} {
			if !strings.Contains(c.err, want) {
				t.Errorf("%q is missing in %s", want, c.err)
			}
		}
		if c.code != cli.ExitUsage || c.pending(t) != 0 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "batch", write(t, "in.jsonl", good), "--limit", "openai"); c.code != cli.ExitOK ||
			c.pending(t) != 1 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// A task that was archived without a result, because its workers were killed too often, gets a result when its batch
// is enqueued again.
func TestArchivedTasksHaveResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(3))
		c := w.call(t, "batch", in, "--limit", "openai")
		id := batchOf(t, c)
		inspector := w.redis.Inspector()
		if err := inspector.ArchiveTask("default", id+"-2-0"); err != nil {
			t.Fatal(err)
		}
		errs := filepath.Join(t.TempDir(), "err.jsonl")
		w.work(t, nil)
		c = w.call(t, "batch", in, "--limit", "openai", "--errors", errs)
		bad := readLines(t, errs)
		if c.code != cli.ExitFailed || len(bad) != 1 || bad[0].CustomID != "c2" || bad[0].Error == nil ||
			bad[0].Error.Code != "request_failed" {
			t.Fatalf("exit %d: %+v: %s", c.code, bad, c.err)
		}
		if c = w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s", c.code, c.err)
		}
		if c = w.call(t, "batch", in, "--limit", "openai", "--errors", errs); c.code != cli.ExitOK ||
			len(readLines(t, errs)) != 0 {
			t.Errorf("exit %d: %s", c.code, c.err)
		}
	})
}
