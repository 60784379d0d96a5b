package llm_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/headway-go/headway/tasks/llm"
)

// An error that is packed although the client did not ask for it is not kept as bytes: it may hold the key, which no
// search finds there.
func TestPackedErrors(t *testing.T) {
	t.Parallel()
	const key = "sk-5ecret-of-the-test"
	var gzipped bytes.Buffer
	w := gzip.NewWriter(&gzipped)
	_, _ = w.Write([]byte(`{"error":{"message":"wrong key ` + key + `"}}`))
	_ = w.Close()
	for encoding, kept := range map[string]bool{
		"": true, "identity": true, "Identity": true, "br": false, "zstd": false, "gzip, br": false, "x-" + key: false,
		"deflate": false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if encoding != "" {
				w.Header()["Content-Encoding"] = []string{encoding}
			}
			w.WriteHeader(http.StatusBadRequest)
			if kept {
				_, _ = w.Write([]byte(`{"error":{"message":"a plain error"}}`))
				return
			}
			_, _ = w.Write(gzipped.Bytes())
		}))
		client, err := llm.NewClient(llm.Config{BaseURL: server.URL + "/v1", APIKey: key})
		if err != nil {
			t.Fatal(err)
		}
		call, err := llm.NewCall(llm.EndpointEmbeddings, "openai", []byte(`{"model":"m","input":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Run(t.Context(), call, nil)
		var e *llm.Error
		if !errors.As(err, &e) || !utf8.Valid(e.Body) || bytes.Contains(e.Body, gzipped.Bytes()[:10]) ||
			strings.Contains(string(e.Body)+err.Error(), key) || strings.Contains(e.Message, "a plain error") != kept ||
			strings.Contains(e.Message, "is packed as") == kept {
			t.Errorf("%q: %v, body %q", encoding, err, e.Body)
		}
		client.Close()
		server.Close()
	}
}
