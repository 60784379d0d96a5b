package testenv

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Raw serves on loopback until the test ends, and answers each request with exactly these bytes, which may be invalid
// HTTP. It returns the address.
func Raw(t *testing.T, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// Leaks returns answers that repeat a secret in a place that a client may show, by place.
func Leaks(secret string) map[string]string {
	const ok = "HTTP/1.1 200 OK\r\n"
	chunked := ok + "Transfer-Encoding: chunked\r\n"
	body := func(status, kind, text string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status,
			kind, len(text), text)
	}
	named := `{"error":{"message":"bad key ` + secret + `","code":"` + secret + `","type":"` + secret + `","param":"` +
		secret + `"}}`
	return map[string]string{
		"no HTTP":              secret + "\r\n\r\n",
		"version":              "HTTP/" + secret + " 200 OK\r\n\r\n",
		"status line":          "HTTP/1.1 " + secret + "\r\n\r\n",
		"status text":          body("400 "+secret, "text/plain", ""),
		"header without colon": ok + secret + "\r\n\r\n",
		"name of a header":     ok + secret + " x: 1\r\n\r\n",
		"length":               ok + "Content-Length: " + secret + "\r\n\r\n",
		"encoding":             ok + "Transfer-Encoding: " + secret + "\r\n\r\n",
		"name of a trailer":    chunked + "Trailer: Content-Length, " + secret + "\r\n\r\n0\r\n\r\n",
		"trailer":              chunked + "\r\n0\r\n" + secret + "\r\n\r\n",
		"length of a chunk":    chunked + "\r\n" + secret + "\r\n",
		"zipped": ok + "Content-Encoding: gzip\r\nContent-Length: 40\r\n\r\n" + secret +
			strings.Repeat("x", 40),
		"redirect":            "HTTP/1.1 307 Moved\r\nLocation: http://[" + secret + "\r\nContent-Length: 0\r\n\r\n",
		"place":               "HTTP/1.1 307 Moved\r\nLocation: /" + secret + "\r\nContent-Length: 0\r\n\r\n",
		"page":                body("500 Oops", "text/html", "<html>"+secret),
		"end of a page":       body("500 Oops", "text/html", strings.Repeat("x", 480)+secret),
		"end of a long page":  body("500 Oops", "text/html", strings.Repeat("x", 65500)+secret),
		"error":               body("400 No", "application/json", named),
		"refused key":         body("401 No", "application/json", named),
		"error of a good one": body("200 OK", "application/json", named),
		"type":                body("200 OK", "text/"+secret, "no JSON"),
		"request ID":          "HTTP/1.1 500 Oops\r\nX-Request-Id: " + secret + "\r\nContent-Length: 0\r\n\r\n",
		"good answer":         body("200 OK", "application/json", `{"id":"`+secret+`","choices":[]}`),
		"name of a limit":     ok + "X-RateLimit-" + secret + ": 1\r\nContent-Length: 0\r\n\r\n",
		"limit":               ok + "RateLimit-Policy: " + secret + "\r\nContent-Length: 0\r\n\r\n",
	}
}

// Escaped returns the escaped forms of a secret of ASCII letters, by name.
func Escaped(secret string) map[string]string {
	each := func(format string) string {
		var text strings.Builder
		for _, c := range []byte(secret) {
			fmt.Fprintf(&text, format, c)
		}
		return text.String()
	}
	return map[string]string{
		"unchanged": secret, "large": strings.ToUpper(secret), "small": strings.ToLower(secret),
		"JSON": each(`\u%04x`), "large JSON": each(`\u%04X`),
		"JSON in JSON": each(`\\u%04x`),
		"Go":           each(`\x%02x`), "URL": each("%%%02X"), "URL in URL": each("%%25%02x"), "HTML": each("&#%d;"),
		"large HTML": each("&#X%X;"), "slashes": each(`\%c`), "braces": each(`\u{%x}`), "hex": each("%02x"),
		"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 of more":  base64.StdEncoding.EncodeToString([]byte("k" + secret + "k")),
		"URL base64 of 2": base64.RawURLEncoding.EncodeToString([]byte("kk" + secret)),
	}
}

// Shown returns all that a program may print of an error: each text along its chain.
func Shown(err error) string {
	if err == nil {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%v\n%+v\n%#v\n", err, err, err)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			text.WriteString(Shown(e))
		}
	}
	return text.String() + Shown(errors.Unwrap(err))
}
