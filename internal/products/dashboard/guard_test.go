package dashboard_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/products/dashboard"
)

// Every answer forbids the browser what a page does not need, and no page needs inline code or styles.
func TestPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.handler(t)
		inline := regexp.MustCompile(`(?i)<script(?:>|\s+[^s])|<style|\sstyle=|\son[a-z]+=|javascript:`)
		for _, path := range append(paths(w.enqueue(t, job{})), "/assets/style.css", "/assets/live.js", "/nothing",
			"/limit?name=x") {
			got := send(h, http.MethodGet, path, nil)
			policy := got.Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") ||
				!strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "script-src 'self'") {
				t.Errorf("%s has the policy %q", path, policy)
			}
			for header, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
			} {
				if got.Header().Get(header) != want {
					t.Errorf("%s: %s is %q", path, header, got.Header().Get(header))
				}
			}
			if strings.HasPrefix(got.Header().Get("Content-Type"), "text/html") {
				if found := inline.FindString(got.Body.String()); found != "" {
					t.Errorf("%s has %q inline", path, found)
				}
			}
		}
	})
}

// A name that another site points to loopback does not open the page.
func TestHostIsChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.handler(t)
		as := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
		for host, want := range map[string]int{
			"127.0.0.1:8383": 200, "localhost:9": 200, "LOCALHOST": 200, "[::1]:8383": 200, "127.0.0.2": 200,
			"evil.example:8383": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "10.0.0.1": 421, "": 421,
		} {
			for _, path := range []string{"/", "/assets/live.js", "/events?at=/nothing"} {
				got := send(h, http.MethodGet, path, nil, as(host))
				if want == 421 && got.Code != 421 || want == 200 && got.Code == 421 {
					t.Errorf("%s at %q: status %d", path, host, got.Code)
				}
			}
		}
		w.config.AnyHost = true
		if got := send(w.handler(t), http.MethodGet, "/", nil, as("fleet.example")); got.Code != http.StatusOK {
			t.Errorf("with any host: status %d", got.Code)
		}
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const password, token = "correct horse", "a-token-of-a-proxy"
		w := newWorld(t)
		w.config.Credentials = dashboard.Credentials{User: "ada", Password: password, Token: token}
		w.config.AllowChanges = true
		h := w.handler(t)
		header := func(value string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Authorization", value) }
		}
		basic := func(user, password string) func(*http.Request) {
			return func(r *http.Request) { r.SetBasicAuth(user, password) }
		}
		for name, try := range map[string]struct {
			as   func(*http.Request)
			want int
		}{
			"none":           {func(*http.Request) {}, 401},
			"password":       {basic("ada", password), 200},
			"other password": {basic("ada", "correct horsf"), 401},
			"other user":     {basic("eve", password), 401},
			"no password":    {basic("ada", ""), 401},
			"token":          {header("Bearer " + token), 200},
			"other token":    {header("Bearer " + token + "x"), 401},
			"no token":       {header("Bearer "), 401},
		} {
			for _, path := range []string{"/", "/assets/style.css"} {
				if got := send(h, http.MethodGet, path, nil, try.as); got.Code != try.want {
					t.Errorf("%s at %s: status %d, want %d", name, path, got.Code, try.want)
				}
			}
			if got := send(h, http.MethodPost, "/pause", url.Values{"queue": {"x"}},
				try.as); (got.Code == 401) != (try.want == 401) {
				t.Errorf("%s: a change has status %d", name, got.Code)
			}
		}
		if asks := send(h, http.MethodGet, "/", nil).Header().Get("WWW-Authenticate"); !strings.HasPrefix(asks, "Basic ") {
			t.Errorf("a browser is asked for %q", asks)
		}
	})
}

// Wrong logins are logged, without what was typed, and after some of them an address is not looked at for a while. A
// request without a login is none.
func TestWrongLogins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const password = "correct horse"
		var log bytes.Buffer
		w := newWorld(t)
		w.config.Credentials = dashboard.Credentials{User: "ada", Password: password}
		w.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		h := w.handler(t)
		get := func(address, user, typed string) *httptest.ResponseRecorder {
			return send(h, http.MethodGet, "/assets/style.css", nil, func(r *http.Request) {
				if r.RemoteAddr = address; user != "" {
					r.SetBasicAuth(user, typed)
				}
			})
		}
		for i := range 50 {
			if got := get("203.0.113.9:1", "", ""); got.Code != http.StatusUnauthorized {
				t.Fatalf("request %d without a login: status %d", i, got.Code)
			}
		}
		for i := range 25 {
			want := http.StatusUnauthorized
			if i >= 20 {
				want = http.StatusTooManyRequests
			}
			got := get("203.0.113.9:1", "typed-secret", "typed-secret")
			if got.Code != want || (got.Header().Get("Retry-After") != "") != (want == http.StatusTooManyRequests) {
				t.Errorf("wrong login %d: status %d, %v", i+1, got.Code, got.Header())
			}
		}
		if got := get("203.0.113.9:2", "ada", password); got.Code != http.StatusTooManyRequests {
			t.Errorf("a right login after them: status %d", got.Code)
		}
		if got := get("203.0.113.10:2", "ada", password); got.Code != http.StatusOK {
			t.Errorf("a right login of another address: status %d", got.Code)
		}
		if text := log.String(); strings.Count(text, "refused a login") != 2 || !strings.Contains(text, "203.0.113.9") ||
			strings.Contains(text, "typed-secret") {
			t.Errorf("the log:\n%s", text)
		}
	})
}

func TestWeakCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]dashboard.Credentials{
			"a user alone": {User: "ada"}, "a password alone": {Password: "long enough, really"},
			"a short password": {User: "ada", Password: "short"}, "a short token": {Token: "short"},
		} {
			w := newWorld(t)
			w.config.Credentials = c
			_, err := dashboard.New(w.config)
			if !errors.Is(err, dashboard.ErrCredentials) || strings.Contains(err.Error(), "short\"") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// Methods that a page does not have are refused, and so is every change where the page is read-only.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enqueue(t, job{})
		server, err := dashboard.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		h := server.Handler()
		if len(server.Changes()) < 10 {
			t.Fatalf("the page can change %q", server.Changes())
		}
		for _, path := range server.Changes() {
			got := send(h, http.MethodPost, path, url.Values{"queue": {"default"}, "id": {"x"}})
			if got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), "--allow-changes") {
				t.Errorf("%s: status %d, %s", path, got.Code, got.Body)
			}
			if got = send(h, http.MethodGet, path, nil); got.Code != http.StatusMethodNotAllowed {
				t.Errorf("GET %s: status %d", path, got.Code)
			}
		}
		if got := send(h, http.MethodDelete, "/queues", nil); got.Code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE: status %d", got.Code)
		}
		if info, err := w.inspector.GetQueueInfo("default"); err != nil || info.Paused {
			t.Errorf("the queue is paused: %v", err)
		}
		for _, path := range paths("x") {
			if page := send(h, http.MethodGet, path, nil).Body.String(); strings.Contains(page, `method="post"`) {
				t.Errorf("%s has a form that changes something", path)
			}
		}
	})
}

func TestPausesAndResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enqueue(t, job{})
		w.config.AllowChanges = true
		h := w.handler(t)
		paused := func() bool {
			info, err := w.inspector.GetQueueInfo("default")
			if err != nil {
				t.Fatal(err)
			}
			return info.Paused
		}
		form := url.Values{"queue": {"default"}}
		for range 2 { // twice is no fault
			if got := send(h, http.MethodPost, "/pause", form); got.Code != http.StatusSeeOther || !paused() ||
				got.Header().Get("Location") != "queues?done=paused&n=1" {
				t.Errorf("status %d, to %s", got.Code, got.Header().Get("Location"))
			}
		}
		for path, want := range map[string]string{
			"/":       "Queue default is paused: 1 task waits.",
			"/queues": `<form method="post" action="resume"><input type="hidden" name="queue" value="default">`,
		} {
			if page := send(h, http.MethodGet, path, nil).Body.String(); !strings.Contains(page, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, page)
			}
		}
		for range 2 {
			if got := send(h, http.MethodPost, "/resume", form); got.Code != http.StatusSeeOther || paused() {
				t.Errorf("status %d", got.Code)
			}
		}
		got := send(h, http.MethodPost, "/pause", url.Values{"queue": {"<b>"}})
		if got.Code != http.StatusNotFound || strings.Contains(got.Body.String(), "<b>.") {
			t.Errorf("an unknown queue: status %d", got.Code)
		}
		if !strings.Contains(got.Body.String(), `data-live=""`) { // else the script shows another page in its place
			t.Errorf("the error does not stay:\n%s", got.Body)
		}
	})
}

// slowly delays all commands of a Redis client.
type slowly time.Duration

func (slowly) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s slowly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := pause.For(ctx, time.Duration(s)); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (slowly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A change is answered, however long it takes.
func TestSlowChangesAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue(t, job{})
	w.config.AllowChanges = true
	w.config.Client.AddHook(slowly(200 * time.Millisecond))
	server := httptest.NewUnstartedServer(w.handler(t))
	server.Config.WriteTimeout = 100 * time.Millisecond
	server.Start()
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/pause",
		strings.NewReader("queue=default"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := http.DefaultTransport.RoundTrip(request) // which follows no redirection
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusSeeOther {
		t.Errorf("status %d", answer.StatusCode)
	}
}

// Another site can't have a reader's browser change something.
func TestOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.enqueue(t, job{})
		w.config.AllowChanges = true
		server, err := dashboard.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		for name, from := range map[string]func(*http.Request){
			"another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
			"a sibling":      func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
			"another origin": func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
			"no origin":      func(r *http.Request) { r.Header.Set("Origin", "null") },
			"another port":   func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9999") },
		} {
			for _, path := range server.Changes() {
				got := send(server.Handler(), http.MethodPost, path, url.Values{"queue": {"default"}}, from)
				if got.Code != http.StatusForbidden {
					t.Errorf("%s at %s: status %d", name, path, got.Code)
				}
			}
		}
		if info, err := w.inspector.GetQueueInfo("default"); err != nil || info.Paused {
			t.Errorf("the queue is paused: %v", err)
		}
	})
}
