package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/products/gateway"
)

// Without keys, the page of another site in a browser of this machine spends no tokens and reads nothing. A key
// proves that the page did not send the request.
func TestOtherSitesAreKeptOut(t *testing.T) {
	t.Parallel()
	guarded := func(c *gateway.Config) { c.Keys = callers{"hw_a": keyOf("a")} }
	for name, c := range map[string]struct {
		change func(*gateway.Config)
		host   string // empty is that of the gateway
		header http.Header
		want   int
	}{
		"a client":                     {nil, "", http.Header{}, http.StatusOK},
		"by name":                      {nil, "localhost:80", http.Header{}, http.StatusOK},
		"a form of another site":       {nil, "", http.Header{"Origin": {"https://evil.example"}}, http.StatusForbidden},
		"a fetch of another site":      {nil, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, http.StatusForbidden},
		"a name that leads here":       {nil, "evil.example", http.Header{}, http.StatusMisdirectedRequest},
		"that name, with any key":      {nil, "evil.example:80", bearer("any"), http.StatusMisdirectedRequest},
		"a key, by a name":             {guarded, "llm.internal", bearer("hw_a"), http.StatusOK},
		"a key, scheme in small":       {guarded, "", http.Header{"Authorization": {"bearer hw_a"}}, http.StatusOK},
		"no key where keys are needed": {guarded, "", http.Header{}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
			}, c.change)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/v1/chat/completions",
				strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			r.Header, r.Host = c.header, c.host
			r.Header.Set("Content-Type", "text/plain") // what a page may send without asking first
			res, err := b.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != c.want {
				t.Errorf("status %d, want %d", res.StatusCode, c.want)
			}
			if _, requests := b.left(); c.want != http.StatusOK && requests != 10 {
				t.Errorf("%v requests are left of 10", requests)
			}
		})
	}
}

// An open gateway needs no key at all.
func TestNoKeyIsNeededWhereThereIsNone(t *testing.T) {
	t.Parallel()
	b := setup(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[]}`)
	}, func(c *gateway.Config) { c.Keys = open{} })
	if status, body := b.post("/v1/chat/completions", hello); status != http.StatusOK {
		t.Errorf("status %d: %s", status, body)
	}
}

// open knows every caller, as a keys.Book without keys does on loopback.
type open struct{}

func (open) Find(context.Context, string) (keys.Key, bool) { return keys.Key{}, true }

func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }
