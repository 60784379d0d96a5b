package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/test/memhttp"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

const secret = "very-secret-0123456789"

// secretsFor returns API_KEY, for all these hosts over http.
func secretsFor(hosts ...string) map[string]web.Secret {
	listed := make([]string, len(hosts))
	for i, host := range hosts {
		listed[i] = "http://" + host
	}
	if len(hosts) == 0 {
		return nil
	}
	return map[string]web.Secret{"API_KEY": {Value: secret, Hosts: listed}}
}

// service serves handle on loopback, and returns a client that may call it, and its URL.
func service(t *testing.T, config web.Config, handle http.HandlerFunc) (*web.Client, string) {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	config.AllowHosts = append(config.AllowHosts, server.Listener.Addr().String())
	return newClient(t, config), server.URL
}

func newClient(t *testing.T, config web.Config) *web.Client {
	t.Helper()
	if config.Secrets == nil {
		config.Secrets = secretsFor(config.AllowHosts...)
	}
	client, err := web.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestDoSendsWhatTheTaskSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request          web.Request
		method           string
		body, kind, auth string
	}{
		"a plain GET": {web.Request{}, "GET", "", "", ""},
		"JSON as it is": {
			web.Request{Method: "POST", Body: json.RawMessage(`{"a":1.50, "b":12345678901234567890}`)},
			"POST",
			`{"a":1.50, "b":12345678901234567890}`, "application/json", "",
		},
		"a text": {
			web.Request{Method: "PUT", Body: json.RawMessage(`"é\n"`)}, "PUT", "é\n", "text/plain; charset=utf-8", "",
		},
		"a list": {web.Request{Method: "PATCH", Body: json.RawMessage(`[1]`)}, "PATCH", "[1]", "application/json", ""},
		"own type": {
			web.Request{Method: "POST", Body: json.RawMessage(`"<a/>"`), Header: map[string]string{"content-type": "text/xml"}},
			"POST", "<a/>", "text/xml", "",
		},
		"a secret": {
			web.Request{Method: "DELETE", Header: map[string]string{"Authorization": "Bearer ${API_KEY}"}},
			"DELETE", "", "",
			"Bearer " + secret,
		},
		"two secrets": {
			web.Request{Header: map[string]string{"Authorization": "${API_KEY}:${API_KEY}$"}},
			"GET", "", "",
			secret + ":" + secret + "$",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := service(t, web.Config{}, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				got := []string{
					r.Method, string(body), r.Header.Get("Content-Type"), r.Header.Get("Authorization"), r.URL.RequestURI(),
				}
				if diff := cmp.Diff([]string{c.method, c.body, c.kind, c.auth, "/a?b=%20c"}, got); err != nil || diff != "" {
					t.Errorf("%v %s", err, diff)
				}
				w.Header().Set("X-Request-Id", "r1")
				w.Header().Set("Set-Cookie", "session="+secret)
				w.Header().Set("X-Ratelimit-Remaining", "7")
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, `{"ok": true}`)
			})
			c.request.URL = url + "/a?b=%20c"
			answer, err := client.Run(t.Context(), c.request, nil)
			if err != nil {
				t.Fatal(err)
			}
			delete(answer.Header, "Date")
			want := web.Answer{
				StatusCode: 201, RequestID: "r1", Body: []byte(`{"ok": true}`),
				Header: map[string]string{"Content-Type": "application/json", "X-Request-Id": "r1", "X-Ratelimit-Remaining": "7"},
			}
			if diff := cmp.Diff(want, answer); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A task must not be able to make a worker call a host that is not listed.
func TestNothingIsCalledThatIsNotListed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was called", r.URL)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		allowed []string
		urls    []string
	}{
		{nil, []string{server.URL, "http://localhost:" + port, "http://[::1]:" + port, "http://169.254.169.254/latest"}},
		{[]string{"api.example.com", "api.example.com:8443", "127.0.0.1"}, []string{
			server.URL, "http://api.example.com:" + port, "http://api.example.com.evil.test", "http://evil.test/api.example.com",
			"http://127.0.0.2", "http://2130706433:" + port, "http://0x7f.1:" + port, "http://127.1:" + port,
			"https://api.example.com:80",
		}},
	} {
		client := newClient(t, web.Config{AllowHosts: c.allowed})
		for _, url := range c.urls {
			var used reservations.Tokens
			r := web.Request{
				URL:   url,
				Terms: tasks.Terms{Taken: []reservations.Charge{{Limit: "a", Tokens: reservations.Tokens{"requests": 1}}}},
			}
			_, err := client.Run(t.Context(), r, func(u reservations.Tokens) { used = u })
			if !errors.Is(err, web.ErrHostNotAllowed) || !errors.Is(err, tasks.ErrPermanent) {
				t.Errorf("%s: %v", url, err)
			}
			if err = (web.Config{AllowHosts: c.allowed}).Check(r); !errors.Is(err, web.ErrHostNotAllowed) {
				t.Errorf("checked, %s: %v", url, err)
			}
			if diff := cmp.Diff(reservations.Tokens{"requests": 0}, used); diff != "" {
				t.Errorf("%s: %s", url, diff)
			}
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was called", r.URL)
	}))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL, "/again", "http://169.254.169.254/"} {
			calls := 0
			client, url := service(t, web.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("Location", to)
				w.WriteHeader(status)
			})
			r := web.Request{
				Method: "POST", URL: url, Body: json.RawMessage(`{}`), Header: map[string]string{"Authorization": "${API_KEY}"},
			}
			_, err := client.Run(t.Context(), r, nil)
			e, ok := errors.AsType[*web.Error](err)
			if !ok || e.Answer.StatusCode != status || e.Answer.Header["Location"] != to ||
				!errors.Is(err, tasks.ErrPermanent) || calls != 1 {
				t.Errorf("%d to %s: %v, %d calls", status, to, err, calls)
			}
			r.OK = []int{status}
			if answer, err := client.Run(t.Context(), r, nil); err != nil || answer.StatusCode != status {
				t.Errorf("asked for: %+v, %v", answer, err)
			}
		}
	}
}

func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	for name, encoding := range map[string]string{"plain": "", "zipped": "gzip"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := service(t, web.Config{MaxBody: 1000}, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", encoding)
				writeZeros(w, encoding, map[string]int{"/fits": 1000, "/more": 1001, "/endless": 10 << 20}[r.URL.Path])
			})
			if answer, err := client.Run(t.Context(), web.Request{URL: url + "/fits"},
				nil); err != nil || len(answer.Body) != 1000 {
				t.Errorf("%d bytes, %v", len(answer.Body), err)
			}
			for _, path := range []string{"/more", "/endless"} {
				_, err := client.Run(t.Context(), web.Request{URL: url + path}, nil)
				e, ok := errors.AsType[*web.Error](err)
				if !ok || !errors.Is(err, web.ErrTooLarge) || !errors.Is(err, tasks.ErrPermanent) || len(e.Answer.Body) > 0 {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
	client, url := service(t, web.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", strings.Repeat("x", 2<<20))
	})
	if _, err := client.Run(t.Context(), web.Request{URL: url}, nil); err == nil {
		t.Error("endless headers were read")
	}
}

// TestKindsOfFailures maps statuses to the kinds of their errors.
func TestKindsOfFailures(t *testing.T) {
	t.Parallel()
	client, url := service(t, web.Config{}, func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
		if after := r.URL.RawQuery; after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "no, "+r.Header.Get("Authorization"))
	})
	again := map[int]bool{
		402: true, 408: true, 409: true, 420: true, 425: true, 429: true, 430: true, 449: true, 498: true, 499: true,
	}
	for status := 400; status < 600; status++ {
		_, err := client.Run(t.Context(), web.Request{URL: fmt.Sprintf("%s/%d", url, status)}, nil)
		if want := again[status] || status >= 500; errors.Is(err, tasks.ErrPermanent) == want || err == nil {
			t.Errorf("%d: tried again: want %v, got %v", status, want, err)
		}
	}
	_, err := client.Run(t.Context(),
		web.Request{URL: url + "/401", Header: map[string]string{"Authorization": "${API_KEY}"}}, nil)
	if err == nil || errors.Is(err, tasks.ErrPermanent) || strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) ||
		!strings.Contains(err.Error(), "no, ***") {
		t.Errorf("a refused secret: %v", err)
	}
	for path, want := range map[string]time.Duration{
		"/429?5": 5 * time.Second, "/503?5": 5 * time.Second, "/500?5": 0, "/429": 0, "/429?soon": 0,
		"/403?5": 5 * time.Second, "/403": 0,
		"/404?5": 5 * time.Second, "/424?5": 5 * time.Second, "/502?5": 5 * time.Second,
		"/529?5": 5 * time.Second, "/400?5": 0,
	} {
		_, err := client.Run(t.Context(), web.Request{URL: url + path}, nil)
		var got time.Duration
		if refusal, ok := errors.AsType[*reservations.RetryAfterError](err); ok {
			got = refusal.After
		}
		if got != want {
			t.Errorf("%s: to come back after %v, want %v (%v)", path, got, want, err)
		}
	}
}

// A refusal stops a limit only if the call went to the service of the limit.
func TestRefusalsOfOtherServices(t *testing.T) {
	t.Parallel()
	address := testenv.Raw(t, "HTTP/1.1 429 Slow\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n")
	client := newClient(t, web.Config{AllowHosts: []string{address}, Providers: map[string]string{
		"own": "http://" + address + "/v1", "other": "https://api.example.com/v1", "capital": "HTTP://" + address,
		"another port": "http://127.0.0.1:1/v1", "another scheme": "https://" + address,
		"a name that ends so": "http://evil." + address,
	}})
	for limit, elsewhere := range map[string]bool{
		"own": false, "other": true, "unnamed": false, "capital": false, "another port": true, "another scheme": true,
		"a name that ends so": true,
	} {
		r := web.Request{URL: "http://" + address + "/"}
		r.Taken = []reservations.Charge{{Limit: "tenants"}, {Limit: limit}}
		_, err := client.Run(t.Context(), r, nil)
		if refusal, ok := errors.AsType[*reservations.RetryAfterError](err); !ok || refusal.Elsewhere != elsewhere {
			t.Errorf("%s: %+v", limit, err)
		}
	}
	if _, err := web.NewClient(web.Config{Providers: map[string]string{"api": "api.example.com"}}); err == nil ||
		!strings.Contains(err.Error(), "providers.api") {
		t.Errorf("an address without a scheme: %v", err)
	}
}

// A refusal blocks the bucket also if the body of the answer breaks off.
func TestRefusalWhosePageBreaksOff(t *testing.T) {
	t.Parallel()
	address := testenv.Raw(t, "HTTP/1.1 429 Slow\r\nRetry-After: 5\r\nContent-Length: 100\r\n\r\nslow do")
	client := newClient(t, web.Config{AllowHosts: []string{address}})
	_, err := client.Run(t.Context(), web.Request{URL: "http://" + address + "/"}, nil)
	refusal, ok := errors.AsType[*reservations.RetryAfterError](err)
	if !ok || refusal.After != 5*time.Second || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want a refusal for 5s", err)
	}
}

var (
	taken = []reservations.Charge{
		{Limit: "tenant", Tokens: reservations.Tokens{"a": 2}}, {Limit: "api", Tokens: reservations.Tokens{"b": 1}},
	}
	unused = reservations.Tokens{"a": 0, "b": 0}
)

// use runs a request that has taken, and returns the reported usage, or nil.
func use(ctx context.Context, client *web.Client, r web.Request) (used reservations.Tokens, err error) {
	r.Taken = taken
	_, err = client.Run(ctx, r, func(u reservations.Tokens) { used = u })
	return used, err
}

// Without a connection no charge is used.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err = listener.Close(); err != nil {
		t.Fatal(err)
	}
	used, err := use(t.Context(), newClient(t, web.Config{AllowHosts: []string{address}}),
		web.Request{URL: "http://" + address + "/?key=" + secret})
	if err == nil || errors.Is(err, tasks.ErrPermanent) || strings.Contains(err.Error(), secret) {
		t.Errorf("no server listens: %v", err)
	}
	if !errors.Is(err, reservations.ErrNotCalled) {
		t.Errorf("%v says nothing of the call", err)
	}
	if diff := cmp.Diff(unused, used); diff != "" {
		t.Error(diff)
	}
}

// If a call is cut off or takes too long, the service may have counted it, so the charges stand.
func TestBrokenCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, brokenCalls)
}

func brokenCalls(t *testing.T) {
	client := newClient(t, web.Config{
		AllowHosts: []string{"127.0.0.1:80"}, HTTPClient: memhttp.Start(t, http.HandlerFunc(cutOff)),
	})
	used, err := use(t.Context(), client, web.Request{URL: memhttp.URL})
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tasks.ErrPermanent) || used != nil {
		t.Errorf("cut off: used %v, %v", used, err)
	}
	began := time.Now()
	used, err = use(t.Context(), client, web.Request{URL: memhttp.URL + "/hang", TimeoutSeconds: 0.2})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tasks.ErrPermanent) || used != nil ||
		time.Since(began) != 200*time.Millisecond {
		t.Errorf("timeout: used %v, %v after %v", used, err, time.Since(began))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	used, err = use(ctx, client, web.Request{URL: memhttp.URL})
	if !errors.Is(err, context.Canceled) || cmp.Diff(unused, used) != "" {
		t.Errorf("cancelled before it is sent: used %v, %v", used, err)
	}
}

// cutOff answers in part, or not at all.
func cutOff(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/hang" {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, "cut")
}
