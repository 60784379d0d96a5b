package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/text/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestText(t *testing.T) {
	t.Parallel()
	s := redact.New("abcdef", "abcdefgh", "q\"uo\\te<1>", "a+b/c d&é", `x41\u0041%41`, "short")
	for text, want := range map[string]string{
		"":                                "",
		"plain, short":                    "plain, short",
		"abcdef":                          "***",
		"xabcdefghx":                      "x***x",
		"ABCDEFGH abcdefg":                "*** ***g",
		"abcdeabcdef":                     "abcde***",
		"abcdefabcdefgh":                  "***",
		`is "q\"uo\\te<1>"`:               `is "***"`,
		`is "q\"uo\\te\u003c1\u003e"`:     `is "***"`,
		url.QueryEscape("q\"uo\\te<1>"):   "***",
		"q\"uo\\te<1>, \u0130 and ABCDEF": "***, \u0130 and ***",

		`"a\u002bB\/c d&\u00E9"`:                                         `"***"`,
		`{\"a\":\"\\u0061+b\\\/c d\\u0026é\"}`:                           `{\"a\":\"***\"}`,
		url.QueryEscape("a+b/c d&é") + "&" + url.PathEscape("a+b/c d&é"): "***&***",
		"a%252Bb%25252fc%20d%26%C3%A9":                                   "***",
		"&#97;&#x2B;b&#47;c d&amp;&eacute;":                              "***",
		`a\x2bb/c d\x26\xc3\xa9`:                                         "***",
		`\x41\u0041%41 %x41\u0041%41`:                                    `\*** %***`,
		`&abcdef; \u00 %4 &#; \`:                                         `&***; \u00 %4 &#; \`,
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := string(s.Bytes([]byte(text))); got != want {
			t.Errorf("the body %q: got %q, want %q", text, got, want)
		}
	}
	if got := (redact.Secrets{}).Text("abcdef"); got != "abcdef" {
		t.Errorf("without secrets: %q", got)
	}
}

// A secret is found in what a service makes of it, and in what a value has beside it.
func TestForms(t *testing.T) {
	t.Parallel()
	const key = "Sk-Proj/0123+4567=89_abc"
	basic := base64.StdEncoding.EncodeToString([]byte("user:hunter2pw"))
	for value, texts := range map[string][]string{
		key: {
			base64.StdEncoding.EncodeToString([]byte(key)), base64.StdEncoding.EncodeToString([]byte("1" + key + "2")),
			base64.RawURLEncoding.EncodeToString([]byte("12" + key)), hex.EncodeToString([]byte("1" + key)),
			strings.ToUpper(hex.EncodeToString([]byte(key))), strings.ReplaceAll(key, "+", `\u{2B}`),
			strings.ReplaceAll(key, "+", "&#0000000000043;"),
			url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("1" + key))),
		},
		key + " ": {key}, "\t" + key + "\r\n": {key}, "Bearer " + key: {key, "Bearer " + key}, "Token\t " + key: {key},
		"Basic " + basic: {basic, "user:hunter2pw", "hunter2pw"}, basic: {"hunter2pw"},
	} {
		s := redact.New(value)
		for _, text := range texts {
			if got := s.Text("<" + text + ">"); len(got) > len("<MV***w%3D%3D>") || !strings.Contains(got, redact.Mark) {
				t.Errorf("%q of %q: %q", text, value, got)
			}
		}
	}
	for _, text := range []string{"Bearer", "user", `\u{2b`, `\u{}`, "u{2b}", "&#0000000000000000000000000043;"} {
		s := redact.New("Bearer "+key, "Basic "+basic)
		if got := s.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// long returns a secret, and a text of that many bytes that repeats it in another letter case with escapes.
func long(bytes int) (secret, text string) {
	secret = "Sk-Very/Long+Secret_0123456789abcdef"
	echo := strings.ToLower(secret) + `","` + strings.ReplaceAll(secret, "/", `\/`) + `\n,` + url.QueryEscape(secret) + " "
	return secret, strings.Repeat(echo, bytes/len(echo))
}

// Redacting takes time linear in the length of the text: with many megabytes the test ends.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	secret, text := long(8 << 20)
	want := strings.Repeat(`***","***\n,*** `, strings.Count(text, " "))
	if got := redact.New(secret, "another secret", "a third one").Text(text); got != want {
		t.Errorf("got %d bytes, %.100s; want %d", len(got), got, len(want))
	}
}

func BenchmarkText(b *testing.B) {
	secret, echo := long(1 << 20)
	plain := strings.Repeat(`{"content":"some words\n"},`, 1<<20/27)
	for name, text := range map[string]string{"echo": echo, "plain": plain} {
		b.Run(name, func(b *testing.B) {
			s := redact.New(secret, "another secret", "a third one")
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s.Text(text)
			}
		})
	}
}

// A redacted error matches what it hides, and no walk along its chain reaches the text.
func TestError(t *testing.T) {
	t.Parallel()
	s := redact.New("very-secret")
	err := s.Error(fmt.Errorf("call very-secret: %w", io.ErrUnexpectedEOF), 100)
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "call ***: unexpected EOF" {
		t.Errorf("got %v", err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e.Error()), "very-secret") {
			t.Errorf("%T shows it", e)
		}
	}
	hidden := s.Error(detailed{"very-secret"}, 100)
	if text := fmt.Sprintf("%#v %+v", hidden, struct{ Err error }{hidden}); strings.Contains(text, "very-secret") {
		t.Errorf("a format shows it: %s", text)
	}
	if d, ok := errors.AsType[detailed](hidden); !ok || d.Detail != "very-secret" {
		t.Errorf("%v is not what it was", hidden)
	}
	if cut := s.Error(errors.New("aé very-secret"), 2); cut.Error() != "a…" {
		t.Errorf("cut: %q", cut)
	}
	if s.Error(nil, 100) != nil {
		t.Error("nil became an error")
	}
}

// detailed is an error with its detail in a field, like errors of HTTP/2.
type detailed struct{ Detail string }

func (detailed) Error() string { return "failed" }

// The secret is removed, however a text quotes it.
func FuzzText(f *testing.F) {
	f.Add("very-secret", "", "")
	f.Add("a\"b\\c\x7f<é", "x", "y")
	f.Add("aaaaaaa", "aaaa", "aaaa")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < redact.Shortest || strings.Contains(secret, "*") {
			return
		}
		s := redact.New(secret)
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{
			secret, fmt.Sprintf("%q", secret), string(quoted), url.QueryEscape(secret), textproto.CanonicalMIMEHeaderKey(secret),
		} {
			got := s.Text(before + form + after)
			if strings.Contains(got, secret) {
				t.Errorf("%q of %q: %q", form, secret, got)
			}
			if body := s.Bytes([]byte(before + form + after)); string(body) != got {
				t.Errorf("%q as a body: %q", got, body)
			}
		}
	})
}
