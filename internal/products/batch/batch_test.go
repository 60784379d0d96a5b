package batch_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/products/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// good returns a valid line.
func good(id string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":%s}`, id, body)
}

// with returns a valid line with another value of one field. An empty value removes the field.
func with(field, value string) string {
	fields := map[string]string{
		"custom_id": `"x"`, "method": `"POST"`, "url": `"/v1/chat/completions"`, "body": body,
	}
	fields[field] = value
	var parts []string
	for _, name := range []string{"custom_id", "method", "url", "body"} {
		if fields[name] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, fields[name]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// event is the result of one call of Next.
type event struct {
	Line  int
	ID    string
	Field string
	Fault error
}

// readAll returns all results until the final error.
func readAll(t *testing.T, in io.Reader, cfg batch.Config) ([]event, error) {
	t.Helper()
	r := batch.NewReader(in, cfg)
	var events []event
	for {
		line, err := r.Next()
		fault, ok := errors.AsType[*batch.LineError](err)
		switch {
		case err == nil:
			events = append(events, event{Line: line.Number, ID: line.CustomID})
		case ok:
			events = append(events, event{Line: fault.Line, Field: fault.Field, Fault: fault})
		default:
			if _, again := r.Next(); !errors.Is(again, err) {
				t.Errorf("the final error %v was followed by %v", err, again)
			}
			return events, err
		}
	}
}

func compareFaults() cmp.Option {
	return cmp.Comparer(func(x, y error) bool {
		return x == nil && y == nil || x != nil && y != nil && (errors.Is(x, y) || errors.Is(y, x))
	})
}

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Replace(good("long"), `"hi"`, `"`+strings.Repeat("x", 200_000)+`"`, 1)
	for name, c := range map[string]struct {
		in   string
		want []event
	}{
		"empty":            {"", nil},
		"blank lines only": {"\n \r\n\t\n", nil},
		"two lines":        {good("a") + "\n" + good("b") + "\n", []event{{Line: 1, ID: "a"}, {Line: 2, ID: "b"}}},
		"no line break at the end": {
			good("a") + "\n" + good("b"),
			[]event{{Line: 1, ID: "a"}, {Line: 2, ID: "b"}},
		},
		"byte order mark and CRLF": {
			"\ufeff" + good("a") + "\r\n\r\n" + good("b") + "\r\n",
			[]event{{Line: 1, ID: "a"}, {Line: 3, ID: "b"}},
		},
		"unknown fields": {
			strings.Replace(good("a"), "{", `{"note":1,`, 1),
			[]event{{Line: 1, ID: "a"}},
		},
		"longer than the read buffer": {
			long + "\n" + good("b"),
			[]event{{Line: 1, ID: "long"}, {Line: 2, ID: "b"}},
		},
		"goes on after a line at fault": {
			good("a") + "\n{\n" + good("b") + "\n",
			[]event{{Line: 1, ID: "a"}, {Line: 2, Fault: batch.ErrJSON}, {Line: 3, ID: "b"}},
		},
		"an ID used three times": {
			good("a") + "\n" + good("b") + "\n" + good("a") + "\n" + good("a"),
			[]event{
				{Line: 1, ID: "a"},
				{Line: 2, ID: "b"},
				{Line: 3, Field: "custom_id", Fault: batch.ErrDuplicateID},
				{Line: 4, Field: "custom_id", Fault: batch.ErrDuplicateID},
			},
		},
		"a line at fault takes no ID": {
			with("method", "") + "\n" + with("", ""),
			[]event{{Line: 1, Field: "method", Fault: batch.ErrMissingField}, {Line: 2, ID: "x"}},
		},
		"cut off": {
			good("a") + "\n" + good("b")[:60],
			[]event{{Line: 1, ID: "a"}, {Line: 2, Fault: batch.ErrTruncated}},
		},
		"cut off within a letter": {
			strings.Split(good("aö"), "\xb6")[0],
			[]event{{Line: 1, Fault: batch.ErrTruncated}},
		},
		"cut off, with a line break": {good("b")[:60] + "\n", []event{{Line: 1, Fault: batch.ErrJSON}}},
		"wrong before the end":       {`{"custom_id"; `, []event{{Line: 1, Fault: batch.ErrJSON}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, in := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "in halves": iotest.HalfReader(strings.NewReader(c.in)),
				"with its end": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got, err := readAll(t, in, batch.Config{})
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: ended with %v", kind, err)
				}
				if diff := cmp.Diff(c.want, got, compareFaults()); diff != "" {
					t.Errorf("%s: %s", kind, diff)
				}
			}
		})
	}
}

func TestLineAtFault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, field string
		want      error
		text      string // the text of the error
	}{
		"not JSON":           {`hello`, "", batch.ErrJSON, "line 1: not valid JSON: invalid character 'h'"},
		"two objects":        {`{} {}`, "", batch.ErrJSON, "after top-level value"},
		"a list":             {`[1]`, "", batch.ErrJSON, "got array, want object"},
		"null":               {`null`, "custom_id", batch.ErrMissingField, "line 1: custom_id: missing"},
		"UTF-16":             {"\xff\xfe{\x00}\x00", "", batch.ErrUTF8, "line 1: not valid UTF-8"},
		"no custom_id":       {with("custom_id", ""), "custom_id", batch.ErrMissingField, ""},
		"empty custom_id":    {with("custom_id", `" "`), "custom_id", batch.ErrMissingField, ""},
		"custom_id a number": {with("custom_id", `7`), "custom_id", batch.ErrJSON, "got number, want string"},
		"endless custom_id": {
			with("custom_id", `"`+strings.Repeat("x", batch.MaxName+1)+`"`), "custom_id",
			batch.ErrTooLong, "4097 bytes, at most 4096",
		},
		"half a character": {
			with("custom_id", `"a\ud800"`), "custom_id", batch.ErrUTF8,
			"line 1: custom_id: not valid UTF-8",
		},
		"Custom_ID": {
			strings.Replace(good("a"), "custom_id", "Custom_ID", 1), "custom_id",
			batch.ErrMissingField, "",
		},
		"no method": {with("method", ""), "method", batch.ErrMissingField, ""},
		"GET": {
			with("method", `"GET"`), "method", batch.ErrMethod,
			`unknown method "GET", supported: POST`,
		},
		"no url": {with("url", `null`), "url", batch.ErrMissingField, ""},
		"another url": {
			with("url", `"/v1/images"`), "url", batch.ErrUnknownURL,
			`unknown url "/v1/images", supported: /v1/chat/completions, /v1/responses, /v1/embeddings, /v1/completions, ` +
				`/v1/moderations, or an absolute`,
		},
		"endless url": {
			with("url", `"`+strings.Repeat("ü", 200)+`"`), "url", batch.ErrUnknownURL,
			strings.Repeat("ü", 80) + `…"`,
		},
		"no body":              {with("body", ""), "body", batch.ErrMissingField, ""},
		"body a text":          {with("body", `"x"`), "body", batch.ErrBody, "not an object"},
		"body without model":   {with("body", `{"messages":[{}]}`), "body.model", batch.ErrBody, ""},
		"body, model a number": {with("body", `{"model":1,"messages":[{}]}`), "body.model", batch.ErrJSON, ""},
		"body, no messages":    {with("body", `{"model":"m"}`), "body.messages", batch.ErrMissingField, ""},
		"body, zero messages":  {with("body", `{"model":"m","messages":[]}`), "body.messages", batch.ErrBody, ""},
		"endless model": {
			with("body", `{"model":"`+strings.Repeat("m", batch.MaxName+1)+`","messages":[{}]}`),
			"body.model", batch.ErrTooLong, "",
		},
		"body, messages null": {
			with("body", `{"model":"m","messages":[{},null]}`), "body.messages", batch.ErrBody,
			"not a list of objects",
		},
		"body, messages texts": {
			with("body", `{"model":"m","messages":["x"]}`), "body.messages", batch.ErrBody,
			"not a list of objects",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := batch.NewReader(strings.NewReader(c.in+"\n"), batch.Config{}).Next()
			fault, ok := errors.AsType[*batch.LineError](err)
			if !ok || !errors.Is(err, c.want) || fault.Field != c.field || fault.Line != 1 {
				t.Fatalf("got %v, want %v at %q", err, c.want, c.field)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not say %q", err, c.text)
			}
		})
	}
}

func TestUTF8(t *testing.T) {
	t.Parallel()
	in := strings.Replace(good("abc"), "abc", "a\xffc", 1) + "\n" + good("é")
	got, _ := readAll(t, strings.NewReader(in), batch.Config{})
	want := []event{{Line: 1, Fault: batch.ErrUTF8}, {Line: 2, ID: "é"}}
	if diff := cmp.Diff(want, got, compareFaults()); diff != "" {
		t.Error(diff)
	}
}

// Names keep replacement characters and escaped characters, up to the largest length.
func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", batch.MaxName)
	in := with("custom_id", `"\ufffd"`) + "\n" + with("custom_id", `"\uFFFD2"`) + "\n" +
		with("custom_id", "\"\ufffd3\"") + "\n" +
		with("custom_id", `"\ud83d\ude00\n"`) + "\n" + with("custom_id", `"`+long+`"`)
	got, _ := readAll(t, strings.NewReader(in), batch.Config{})
	want := []event{
		{Line: 1, ID: "\ufffd"},
		{Line: 2, ID: "\ufffd2"},
		{Line: 3, ID: "\ufffd3"},
		{Line: 4, ID: "😀\n"},
		{Line: 5, ID: long},
	}
	if diff := cmp.Diff(want, got, compareFaults()); diff != "" {
		t.Error(diff)
	}
}

// The limit is exact, for each kind of line break and any position of the line.
func TestLongestLine(t *testing.T) {
	t.Parallel()
	size := len(good("a"))
	for _, end := range []string{"", "\n", "\r\n"} {
		for _, mark := range []string{"", "\ufeff"} {
			in := mark + good("a") + "\n" + good("b") + end
			got, _ := readAll(t, strings.NewReader(in), batch.Config{MaxLine: size})
			if diff := cmp.Diff([]event{{Line: 1, ID: "a"}, {Line: 2, ID: "b"}}, got, compareFaults()); diff != "" {
				t.Errorf("%q %q: %s", mark, end, diff)
			}
			got, _ = readAll(t, strings.NewReader(in), batch.Config{MaxLine: size - 1})
			want := []event{{Line: 1, Fault: batch.ErrTooLong}, {Line: 2, Fault: batch.ErrTooLong}}
			if diff := cmp.Diff(want, got, compareFaults()); diff != "" {
				t.Errorf("%q %q: %s", mark, end, diff)
			}
		}
	}
}

// endless yields n bytes of one line, and then a valid line.
type endless struct {
	n    int
	tail io.Reader
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n <= 0 {
		return e.tail.Read(p)
	}
	n := min(len(p), e.n)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.n -= n
	return n, nil
}

// A line of 100 MB is dropped while it is read.
func TestEndlessLine(t *testing.T) {
	t.Parallel()
	in := &endless{n: 100 << 20, tail: strings.NewReader("\n" + good("a"))}
	got, _ := readAll(t, in, batch.Config{MaxLine: 1000})
	want := []event{{Line: 1, Fault: batch.ErrTooLong}, {Line: 2, ID: "a"}}
	if diff := cmp.Diff(want, got, compareFaults()); diff != "" {
		t.Error(diff)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken disk")
	in := io.MultiReader(strings.NewReader(good("a")+"\n"+good("b")[:20]), iotest.ErrReader(broken))
	got, err := readAll(t, in, batch.Config{})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "read line 2") {
		t.Errorf("ended with %v", err)
	}
	if diff := cmp.Diff([]event{{Line: 1, ID: "a"}}, got, compareFaults()); diff != "" {
		t.Error(diff)
	}
}

func TestLineIsTheCallersToKeep(t *testing.T) {
	t.Parallel()
	r := batch.NewReader(strings.NewReader(good("a")+"\n"+strings.Replace(good("b"), "hi", "ho", 1)), batch.Config{})
	first, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	want := batch.Line{Number: 1, CustomID: "a", Method: "POST", URL: openai.Chat, Body: []byte(body)}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
}

// check reads a whole file and returns the number of its good lines, and all faults.
func check(r io.Reader) (good int, faults error) {
	lines := batch.NewReader(r, batch.Config{})
	for {
		_, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return good, faults
		}
		if err == nil {
			good++
			continue
		}
		faults = errors.Join(faults, err)
		if _, ok := errors.AsType[*batch.LineError](err); !ok {
			return good, faults
		}
	}
}

func TestWholeFiles(t *testing.T) {
	t.Parallel()
	if n, err := check(strings.NewReader(good("a") + "\n\n" + good("b"))); n != 2 || err != nil {
		t.Errorf("good file: %d, %v", n, err)
	}
	for _, in := range []string{"", "\ufeff", "\n\n"} {
		if n, err := check(strings.NewReader(in)); n != 0 || err != nil {
			t.Errorf("%q: %d, %v", in, n, err)
		}
	}
	broken := errors.New("broken disk")
	if _, err := check(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("broken disk: %v", err)
	}
	n, err := check(strings.NewReader(good("a") + "\n{}\n" + good("a") + "\n" + good("b")))
	if n != 2 || !errors.Is(err, batch.ErrDuplicateID) || !errors.Is(err, batch.ErrMissingField) {
		t.Errorf("faults: %d, %v", n, err)
	}
	const want = "line 2: custom_id: missing\nline 3: custom_id: duplicate custom_id: line 1 has \"a\" too"
	if err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
}
