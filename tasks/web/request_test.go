package web_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

func writeZeros(w io.Writer, encoding string, n int) {
	if encoding == "gzip" {
		zipped := gzip.NewWriter(w)
		defer func() { _ = zipped.Close() }()
		w = zipped
	}
	_, _ = io.CopyN(w, zeros{}, int64(n)) // the client closes the connection
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// faults are requests that are never sent, with their invalid field.
var faults = []struct {
	field   string
	request web.Request
}{
	{"url", web.Request{}},
	{"url", web.Request{URL: "/relative"}},
	{"url", web.Request{URL: "//api.example/a"}},
	{"url", web.Request{URL: "ftp://api.example/a"}},
	{"url", web.Request{URL: "file:///etc/passwd"}},
	{"url", web.Request{URL: "http:api.example"}},
	{"url", web.Request{URL: "http://user:" + secret + "@api.example"}},
	{"url", web.Request{URL: "http://api.example/a\r\nX-Evil: 1"}},
	{"url", web.Request{URL: "http://api.example\\@evil.test/"}},
	{"method", web.Request{URL: "http://api.example", Method: "GET /evil HTTP/1.1\r\nHost: evil\r\n\r\n"}},
	{"method", web.Request{URL: "http://api.example", Method: "CONNECT"}},
	{"method", web.Request{URL: "http://api.example", Method: strings.Repeat("G", 41)}},
	{"method", web.Request{URL: "http://api.example", Method: "GÉT"}},
	{"header.X-A", web.Request{URL: "http://api.example", Header: map[string]string{"X-A": "1\r\nX-Evil: 1"}}},
	{"header.X-A", web.Request{URL: "http://api.example", Header: map[string]string{"X-A": "1\x00"}}},
	{"header.X-A", web.Request{URL: "http://api.example", Header: map[string]string{"X-A": "${PATH}"}}},
	{"header.X-A", web.Request{URL: "http://api.example", Header: map[string]string{"X-A": "${}"}}},
	{"header.X-A", web.Request{URL: "http://api.example", Header: map[string]string{"X-A": "${API_KEY"}}},
	{"header", web.Request{URL: "http://api.example", Header: map[string]string{"X-A: 1\r\nX-Evil": "1"}}},
	{"header", web.Request{URL: "http://api.example", Header: map[string]string{"": "1"}}},
	{"header.host", web.Request{URL: "http://api.example", Header: map[string]string{"host": "evil.test"}}},
	{
		"header.Transfer-Encoding",
		web.Request{URL: "http://api.example", Header: map[string]string{"Transfer-Encoding": "chunked"}},
	},
	{"header.content-length", web.Request{URL: "http://api.example", Header: map[string]string{"content-length": "0"}}},
	{"header.Upgrade", web.Request{URL: "http://api.example", Header: map[string]string{"Upgrade": "h2c"}}},
	{"header.TE", web.Request{URL: "http://api.example", Header: map[string]string{"TE": "trailers"}}},
	{"header.X-A", web.Request{URL: "http://api.example", Header: map[string]string{"X-A": "1\x7f"}}},
	{"url", web.Request{URL: "http://api.example:port/"}},
	{"url", web.Request{URL: "http://api.example/%zz"}},
	{"body", web.Request{URL: "http://api.example", Body: json.RawMessage(`{"a":`)}},
	{"ok", web.Request{URL: "http://api.example", OK: []int{200, 100}}},
	{"timeout_seconds", web.Request{URL: "http://api.example", TimeoutSeconds: -1}},
}

func TestRequestsThatAreNeverSent(t *testing.T) {
	t.Parallel()
	config := web.Config{
		AllowHosts: []string{"api.example"}, HTTPClient: &http.Client{Transport: unreachable{t}},
		Secrets: secretsFor("api.example"),
	}
	client := newClient(t, config)
	for _, c := range faults {
		if checked, ok := errors.AsType[*reservations.FieldError](config.Check(c.request)); !ok || checked.Field != c.field {
			t.Errorf("%+v: checked: %v, want a fault at %q", c.request, checked, c.field)
		}
		_, err := client.Run(t.Context(), c.request, nil)
		fault, ok := errors.AsType[*reservations.FieldError](err)
		if !ok || fault.Field != c.field || !errors.Is(err, tasks.ErrPermanent) || strings.Contains(err.Error(), secret) {
			t.Errorf("%+v: got %v, want a fault at %q", c.request, err, c.field)
		}
	}
}

// unreachable fails the test if a client uses it.
type unreachable struct{ t *testing.T }

func (n unreachable) RoundTrip(r *http.Request) (*http.Response, error) {
	n.t.Errorf("%s %s was sent", r.Method, r.URL)
	return nil, errors.New("unreachable")
}

func TestRequestTask(t *testing.T) {
	t.Parallel()
	r := web.Request{
		Method: "POST", URL: "https://api.example/a?b=c&d", Header: map[string]string{"X-A": "${API_KEY}"},
		Body: json.RawMessage(`{"a":1.50}`),
		Terms: tasks.Terms{
			CustomID: "1", Taken: []reservations.Charge{{Limit: "api", Key: "k", Tokens: reservations.Tokens{"requests": 2}}},
		}, OK: []int{200, 404}, TimeoutSeconds: 2.5,
	}
	e, err := envelope.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Taken, e.Charges); diff != "" {
		t.Error(diff)
	}
	want := `{"charges":[{"limit":"api","key":"k","tokens":{"requests":2}}],"custom_id":"1","method":"POST",` +
		`"url":"https://api.example/a?b=c&d","header":{"X-A":"${API_KEY}"},"body":{"a":1.50},"ok":[200,404],` +
		`"timeout_seconds":2.5}`
	if got := string(e.Task.Payload()); got != want {
		t.Errorf("payload\n%s, want\n%s", got, want)
	}
	if got, err := envelope.Decode[web.Request](e.Task); err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("%v, %s", err, cmp.Diff(r, got))
	}
}

func TestAnswerAsJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"a": 1.50}`: `{"status":200,"body":{"a":1.50}}`,
		"text <b>":    `{"status":200,"body":"text \u003cb\u003e"}`,
		"\"\\ä\r\n\t": `{"status":200,"body":"\"\\ä\r\n\t"}`,
		"\xff\x00":    `{"status":200,"body_base64":"/wA="}`,
		"a\x01":       `{"status":200,"body_base64":"YQE="}`,
		"":            `{"status":200}`,
	} {
		got, err := json.Marshal(web.Answer{StatusCode: 200, Body: []byte(body)})
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", body, got, err, want)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"", "*", "*.example.com", "http://api.example.com", "api.example.com/a", "a:b", "api.example.com:", "u@h", "a b",
	} {
		_, err := web.NewClient(web.Config{AllowHosts: []string{host}})
		if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || fault.Field != "allow_hosts" {
			t.Errorf("%q: %v", host, err)
		}
	}
	_, err := web.NewClient(web.Config{Timeout: -1, MaxBody: -1})
	if err == nil || !strings.Contains(err.Error(), "timeout") || !strings.Contains(err.Error(), "max_body") {
		t.Errorf("got %v", err)
	}
}

func TestUrgentRequest(t *testing.T) {
	t.Parallel()
	r := web.Request{
		URL:   "http://api.example",
		Terms: tasks.Terms{Taken: []reservations.Charge{{Limit: "tenants", Key: "a"}, {Limit: "api"}}},
	}
	for _, urgent := range []bool{true, false} {
		r.Urgent = urgent
		for _, charge := range r.Charges() {
			if charge.Urgent != urgent {
				t.Errorf("%v of a request that is urgent: %v", charge, urgent)
			}
		}
	}
	if r.Taken[0].Urgent {
		t.Error("Charges changed r.Taken")
	}
}
