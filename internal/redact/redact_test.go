package redact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestText(t *testing.T) {
	t.Parallel()
	s := redact.New("[secret]", "abcdef", "abcdefgh", "q\"uo\\te<1>", "short")
	for text, want := range map[string]string{
		"":                                "",
		"plain, short":                    "plain, short",
		"abcdef":                          "[secret]",
		"xabcdefghx":                      "x[secret]x",
		"ABCDEFGH abcdefg":                "[secret] [secret]g",
		"abcdeabcdef":                     "abcde[secret]",
		`is "q\"uo\\te<1>"`:               `is "[secret]"`,
		`is "q\"uo\\te\u003c1\u003e"`:     `is "[secret]"`,
		url.QueryEscape("q\"uo\\te<1>"):   "[secret]",
		"q\"uo\\te<1>, \u0130 and ABCDEF": "[secret], \u0130 and [secret]",
	} {
		if got := s.Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := (redact.Secrets{}).Text("abcdef"); got != "abcdef" {
		t.Errorf("without secrets: %q", got)
	}
	if got := string(s.Bytes([]byte("a abcdefgh b"))); got != "a [secret] b" {
		t.Errorf("body %q", got)
	}
}

// A redacted error matches what it hides, and no walk along its chain reaches the text.
func TestError(t *testing.T) {
	t.Parallel()
	s := redact.New("[secret]", "very-secret")
	err := s.Error(fmt.Errorf("call very-secret: %w", io.ErrUnexpectedEOF), 100)
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "call [secret]: unexpected EOF" {
		t.Errorf("got %v", err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", e, e, e.Error()), "very-secret") {
			t.Errorf("%T shows it", e)
		}
	}
	if cut := s.Error(errors.New("aé very-secret"), 2); cut.Error() != "a…" {
		t.Errorf("cut: %q", cut)
	}
	if s.Error(nil, 100) != nil {
		t.Error("nil became an error")
	}
}

// However a text quotes the secret, it is gone.
func FuzzText(f *testing.F) {
	f.Add("very-secret", "", "")
	f.Add("a\"b\\c\x7f<é", "x", "y")
	f.Add("aaaaaaa", "aaaa", "aaaa")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < redact.Shortest || strings.Contains("[secret]", strings.ToLower(secret)) {
			return
		}
		s := redact.New("[]", secret)
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{
			secret, fmt.Sprintf("%q", secret), string(quoted), url.QueryEscape(secret), textproto.CanonicalMIMEHeaderKey(secret),
		} {
			if got := s.Text(before + form + after); strings.Contains(got, secret) && !strings.ContainsAny(secret, "[]") {
				t.Errorf("%q of %q: %q", form, secret, got)
			}
		}
	})
}
