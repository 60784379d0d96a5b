package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/test/memhttp"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

const (
	secret = "sk-very-secret-key-0123456789"
	done   = `{"id":"c1","choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":5,` +
		`"total_tokens":12},"extra":1.50}`
)

// provider serves handle on loopback and returns a client that calls it.
func provider(tb testing.TB, config llm.Config, handle http.HandlerFunc) *llm.Client {
	tb.Helper()
	server := httptest.NewServer(handle)
	tb.Cleanup(server.Close)
	config.BaseURL = server.URL + "/v1"
	if config.APIKey == "" {
		config.APIKey = secret
	}
	client, err := llm.NewClient(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// inMemory is provider without a socket, for bubbles.
func inMemory(tb testing.TB, config llm.Config, handle http.HandlerFunc) *llm.Client {
	tb.Helper()
	config.BaseURL, config.APIKey, config.HTTPClient = memhttp.URL+"/v1", secret, memhttp.Start(tb, handle)
	client, err := llm.NewClient(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

func newChat(tb testing.TB, body string, meters ...string) llm.Call {
	tb.Helper()
	chat, err := llm.NewCall(llm.EndpointChat, "openai", json.RawMessage(body), meters...)
	if err != nil {
		tb.Fatal(err)
	}
	return chat
}

func TestDoSendsTheRequestAsItIs(t *testing.T) {
	t.Parallel()
	const body = `{ "messages":[{"role":"user","content":"a<b \u00e9"}], "seed":12345678901234567890, ` +
		`"x_new":{"a":[1.50,null]} }`
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || string(got) != body {
			t.Errorf("body %s, %v", got, err)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		for name, want := range map[string]string{
			"Authorization": "Bearer " + secret,
			"Content-Type":  "application/json",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s %q, want %q", name, got, want)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "req_1")
		_, _ = io.WriteString(w, done)
	})
	answer, err := client.Run(t.Context(), newChat(t, body), nil)
	if err != nil {
		t.Fatal(err)
	}
	usage := reservations.Tokens{"input_tokens": 7, "output_tokens": 5, "tokens": 12, "tokens_per_day": 12}
	want := llm.Answer{Body: json.RawMessage(done), StatusCode: 200, Usage: usage, RequestID: "req_1"}
	if diff := cmp.Diff(want, answer); diff != "" {
		t.Error(diff)
	}
}

// Only cmd reads the environment.
func TestNoEnvironmentIsRead(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), "from-the-environment") || name == "Authorization" {
				t.Errorf("header %s was sent", name)
			}
		}
		_, _ = io.WriteString(w, done)
	}))
	t.Cleanup(server.Close)
	client, err := llm.NewClient(llm.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := client.Run(t.Context(), newChat(t, hello), nil); err != nil {
		t.Fatal(err)
	}
}

// failures are answers and their expected errors.
var failures = map[string]struct {
	status    int
	header    map[string]string
	body      string
	permanent bool
	want      llm.Error
	used      reservations.Tokens // nil: the estimate stays charged
}{
	"bad request": {
		status: 400,
		body: `{"error":{"message":"no such parameter","type":"invalid_request_error","code":"unknown_parameter",` +
			`"param":null}}`,
		permanent: true, used: reservations.Tokens{"tokens": 0},
		want: llm.Error{
			StatusCode: 400, Code: "unknown_parameter", Type: "invalid_request_error",
			Message: "no such parameter",
		},
	},
	"refused key": {
		status: 401, body: `{"error":{"message":"Incorrect API key provided: ` + secret[:8] + `***` + secret[20:] +
			`","code":"invalid_api_key"}}`,
		used: reservations.Tokens{"tokens": 0},
		want: llm.Error{StatusCode: 401, Code: "invalid_api_key"},
	},
	"larger than the whole limit": {
		status: 429,
		body: `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested ` +
			`50000.","type":"tokens","code":"rate_limit_exceeded"}}`,
		permanent: true, used: reservations.Tokens{"tokens": 0},
		want: llm.Error{
			StatusCode: 429, Code: "rate_limit_exceeded", Type: "tokens",
			Message: "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000.",
		},
	},
	"forbidden": {
		status: 403, body: `{"error":{"message":"key ` + secret + ` may not"}}`,
		permanent: true, used: reservations.Tokens{"tokens": 0},
		want: llm.Error{StatusCode: 403, Message: "key *** may not"},
	},
	"refused key, other shape": {
		status: 401, body: secret[:8] + "***" + secret[20:],
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 401},
	},
	"no such model": {
		status: 404, body: `{"error":{"code":"model_not_found"}}`, permanent: true,
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 404, Code: "model_not_found"},
	},
	"too large": {
		status: 413, body: `{"error":{}}`, permanent: true,
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 413, Message: `{"error":{}}`},
	},
	"unprocessable": {
		status: 422, body: `{"error":{"message":"bad"}}`, permanent: true,
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 422, Message: "bad"},
	},
	"timed out": {status: 408, body: `{"error":{"message":"slow"}}`, want: llm.Error{
		StatusCode: 408,
		Message:    "slow",
	}},
	"conflict": {
		status: 409, body: `{"error":{"message":"twice"}}`,
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 409, Message: "twice"},
	},
	"too many requests": {
		status: 429, header: map[string]string{
			"Retry-After":  "2",
			"X-Request-Id": "req_9",
		}, body: `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`,
		used: reservations.Tokens{"tokens": 0},
		want: llm.Error{
			StatusCode: 429, Code: "rate_limit_exceeded", Type: "requests", Message: "slow down",
			RetryAfter: 2 * time.Second, RequestID: "req_9",
		},
	},
	"in milliseconds": {
		status: 429, header: map[string]string{"Retry-After-Ms": "35"},
		body: `{"error":{"code":"rate_limit_exceeded"}}`, used: reservations.Tokens{"tokens": 0},
		want: llm.Error{StatusCode: 429, Code: "rate_limit_exceeded", RetryAfter: 35 * time.Millisecond},
	},
	"429 without a body": {
		status: 429, header: map[string]string{"Retry-After": "1"},
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 429, RetryAfter: time.Second},
	},
	"server error": {status: 500, body: `{"error":{"message":"oops"}}`, want: llm.Error{
		StatusCode: 500,
		Message:    "oops",
	}},
	"a gateway's page": {status: 502, body: `<html>bad gateway</html>`, want: llm.Error{
		StatusCode: 502,
		Message:    "<html>bad gateway</html>",
	}},
	"overloaded": {
		status: 503, header: map[string]string{"Retry-After": "7"},
		body: `{"error":{"message":"overloaded"}}`, want: llm.Error{
			StatusCode: 503, Message: "overloaded",
			RetryAfter: 7 * time.Second,
		},
	},
	"asked to retry": {
		status: 500, header: map[string]string{"X-Should-Retry": "true"},
		body: `{"error":{"message":"oops"}}`, want: llm.Error{StatusCode: 500, Message: "oops"},
	},
	"a page that is fine": {
		status: 200, header: map[string]string{"Content-Type": "text/html"},
		body: `<html>log in</html>`, want: llm.Error{
			StatusCode: 200, Unusable: `the answer, of type "text/html", is not a JSON object`,
			Message: `the answer, of type "text/html", is not a JSON object: "<html>log in</html>"`,
		},
	},
	"an empty answer": {
		status: 200, header: map[string]string{"Content-Type": "application/json"},
		want: llm.Error{
			StatusCode: 200, Unusable: "the answer is empty", Message: "the answer is empty",
		},
	},
	"a blank answer": {status: 200, body: " \r\n", want: llm.Error{
		StatusCode: 200, Unusable: "the answer is empty",
		Message: "the answer is empty",
	}},
	"limited within a good status": {
		status: 200, header: map[string]string{"Retry-After": "3"},
		body: `{"error":{"code":429,"message":"slow, ` + secret + `"}}`, used: reservations.Tokens{"tokens": 0},
		want: llm.Error{StatusCode: 200, Code: "429", Message: "slow, ***", RetryAfter: 3 * time.Second},
	},
	"failed within a good status": {
		status: 200, body: `{"choices":[{"finish_reason":"error"}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`,
		used: reservations.Tokens{"tokens": 9},
		want: llm.Error{StatusCode: 200, Message: `a choice has the finish_reason "error"`},
	},
	"accepted only": {
		status: 202, body: `{}`, want: llm.Error{
			StatusCode: 202, Unusable: "the answer has no choices",
			Message: `the answer has no choices: "{}"`,
		},
	},
	"no capacity": {
		status: 498, body: `{"error":{"message":"flex"}}`, used: reservations.Tokens{"tokens": 0},
		want: llm.Error{StatusCode: 498, Message: "flex"},
	},
	"another error shape": {
		status: 400, body: `{"error":"just text"}`, permanent: true,
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 400, Message: "just text"},
	},
	"a code of numbers": {
		status: 429, body: `{"error":{"code":429,"message":"quota"}}`,
		used: reservations.Tokens{"tokens": 0}, want: llm.Error{StatusCode: 429, Code: "429", Message: "quota"},
	},
}

func TestRunFailures(t *testing.T) {
	t.Parallel()
	for name, c := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.Header().Set("Content-Type", "application/json")
				for k, v := range c.header {
					w.Header().Set(k, v)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			used, err := run(t.Context(), client, newChat(t, hello))
			got, ok := errors.AsType[*llm.Error](err)
			if !ok {
				t.Fatalf("got %T %v", err, err)
			}
			c.want.Endpoint = llm.EndpointChat
			seen := *got
			seen.Err, seen.Body = nil, nil
			if diff := cmp.Diff(c.want, seen, cmpopts.IgnoreUnexported(llm.Error{})); diff != "" {
				t.Error(diff)
			}
			if permanent := errors.Is(err, tasks.ErrPermanent); permanent != c.permanent ||
				errors.Is(err, asynq.SkipRetry) != c.permanent {
				t.Errorf("permanent %v, want %v: %v", permanent, c.permanent, err)
			}
			if diff := cmp.Diff(c.used, used); diff != "" {
				t.Error(diff)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls, want 1", calls.Load())
			}
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, got), got.Message} {
				if strings.Contains(text, secret) || strings.Contains(text, secret[20:]) {
					t.Errorf("the key is in %s", text)
				}
			}
		})
	}
}

// run returns the reported usage, or nil.
func run(ctx context.Context, client *llm.Client, chat llm.Call) (used reservations.Tokens, err error) {
	_, err = client.Run(ctx, chat, func(u reservations.Tokens) { used = u })
	return used, err
}

func TestRunReportsRealUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage  string
		meters []string
		want   reservations.Tokens
	}{
		"total": {
			`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}`, nil,
			reservations.Tokens{"tokens": 12},
		},
		"no total": {`{"prompt_tokens":7,"completion_tokens":5}`, nil, reservations.Tokens{"tokens": 12}},
		"more in total": {
			`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":20}`, nil,
			reservations.Tokens{"tokens": 20},
		},
		"apart": {
			`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}`,
			[]string{"input_tokens", "output_tokens", "requests"},
			reservations.Tokens{
				"input_tokens":  7,
				"output_tokens": 5,
			},
		},
		"requests only":     {`{"prompt_tokens":7,"completion_tokens":5}`, []string{"requests"}, reservations.Tokens{}},
		"none":              {`null`, nil, nil},
		"nonsense":          {`{"prompt_tokens":-7,"completion_tokens":5}`, nil, nil},
		"endless":           {`{"prompt_tokens":1e308,"completion_tokens":1e308}`, nil, nil},
		"endless total":     {`{"prompt_tokens":7,"completion_tokens":5,"total_tokens":3e9}`, nil, nil},
		"above any number":  {`{"prompt_tokens":1e400,"completion_tokens":5}`, nil, nil},
		"of another type":   {`"much"`, nil, nil},
		"zero is no report": {`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"choices":[{"text":"a"}],"usage":%s}`, c.usage)
			})
			used, err := run(t.Context(), client, newChat(t, hello, c.meters...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, used); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The usage settles the narrower limits too, even if the chat's own limit lacks one of their meters.
func TestRunReportsTheMetersOfAllLimits(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, done) })
	chat := newChat(t, hello, "requests")
	tenant, err := llm.EndpointChat.Charge("tenants", "acme", chat.Request, "input_tokens", "tokens")
	if err != nil {
		t.Fatal(err)
	}
	chat.Taken = slices.Insert(chat.Taken, 0, tenant)
	used, err := run(t.Context(), client, chat)
	if diff := cmp.Diff(reservations.Tokens{"input_tokens": 7, "tokens": 12}, used); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestRunOfAnUnlimitedChatReportsNothing(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, done) })
	used, err := run(t.Context(), client, llm.Call{Request: json.RawMessage(hello)})
	if err != nil || used != nil {
		t.Errorf("used %v, %v", used, err)
	}
	if answer, err := client.Run(t.Context(), newChat(t, hello), nil); err != nil || answer.Usage[llm.MeterTokens] != 12 {
		t.Errorf("%+v, %v", answer, err)
	}
}

// Without a connection the provider counted nothing, so all tokens are refunded, and the task is retried.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if closed := listener.Close(); closed != nil {
		t.Fatal(closed)
	}
	client, err := llm.NewClient(llm.Config{BaseURL: "http://" + address, APIKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	used, err := run(t.Context(), client, newChat(t, hello))
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.StatusCode != 0 || errors.Is(err, tasks.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(reservations.Tokens{"requests": 0, "tokens": 0}, used); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the key is in %v", err)
	}
}

// If the answer is lost, the provider may have counted the call, so the estimate stays charged.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"cut`)
	})
	used, err := run(t.Context(), client, newChat(t, hello))
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tasks.ErrPermanent) || used != nil {
		t.Errorf("used %v, %v", used, err)
	}
}

func TestTimeoutAndCancellation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, timeoutAndCancellation)
}

func timeoutAndCancellation(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	used, err := run(t.Context(), inMemory(t, llm.Config{Timeout: time.Second}, hang), newChat(t, hello))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tasks.ErrPermanent) || used != nil {
		t.Errorf("timeout: used %v, %v", used, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := func(w http.ResponseWriter, r *http.Request) {
		cancel()
		hang(w, r)
	}
	used, err = run(ctx, inMemory(t, llm.Config{}, cancelled), newChat(t, hello))
	if !errors.Is(err, context.Canceled) || used != nil {
		t.Errorf("cancelled: used %v, %v", used, err)
	}
}

func TestABodyThatCannotBeSent(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
	chat := newChat(t, hello)
	chat.Request = json.RawMessage(`{"messages":[{}],"stream":true}`)
	used, err := run(t.Context(), client, chat)
	if _, ok := errors.AsType[*reservations.FieldError](err); !ok || !errors.Is(err, tasks.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(reservations.Tokens{"requests": 0, "tokens": 0}, used); diff != "" {
		t.Error(diff)
	}
}

func TestHeadersReachTheProviderAndNothingIsRetried(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	header := http.Header{"OpenAI-Organization": {"org-1"}}
	client := provider(t, llm.Config{Header: header}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if got := r.Header.Get("OpenAI-Organization"); got != "org-1" {
			t.Errorf("organization %q", got)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	if _, err := client.Run(t.Context(), newChat(t, hello), nil); err == nil || calls.Load() != 1 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}

func TestErrorKeepsNeitherTheRequestNorALongMessage(t *testing.T) {
	t.Parallel()
	client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"`+strings.Repeat("é", 2000)+`","param":"messages"}}`)
	})
	_, err := client.Run(t.Context(), newChat(t, hello), nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Param != "messages" || len(err.Error()) > 600 {
		t.Errorf("got %v", err)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for field, config := range map[string]llm.Config{
		"api_key":  {},
		"timeout":  {APIKey: secret, Timeout: -1},
		"max_body": {APIKey: secret, MaxBody: -1},
		"base_url": {APIKey: secret, BaseURL: "127.0.0.1/v1"},
		"sync":     {APIKey: secret, Sync: "sideways"},
		"meters":   {APIKey: secret, Meters: map[string]string{"token": "tokens"}},

		"header.connection":      {APIKey: secret, Header: http.Header{"connection": {"Upgrade"}}},
		"header.Accept-Encoding": {APIKey: secret, Header: http.Header{"Accept-Encoding": {"br"}}},
		"header.X-A":             {APIKey: secret, Header: http.Header{"X-A": {"b\x7f"}}},
	} {
		_, err := llm.NewClient(config)
		if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || fault.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, url := range []string{"ftp://h/v1", "http://", "http://user:" + secret + "@h/v1", "http://h/v1?key=" +
		secret, "http://h/%zz" + secret, "ftp://u:" + secret + "@h"} {
		_, err := llm.NewClient(llm.Config{BaseURL: url, APIKey: secret})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, err := llm.NewClient(llm.Config{Timeout: -1})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults: %v", err)
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	e := &llm.Error{
		StatusCode: 429, Code: "rate_limit_exceeded", Message: "slow down",
		RetryAfter: 1500 * time.Millisecond, RequestID: "req_1",
	}
	if got, want := e.Error(), "chat completion: 429 Too Many Requests: rate_limit_exceeded: slow down (retry after "+
		"1.5s) (request req_1)"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// Headers come from outside too, and errors are stored in Redis and in logs.
func TestHeadersInErrorsAreShortAndHoldNoKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} {
		client := provider(t, llm.Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", secret+strings.Repeat("x", 10_000))
			w.Header().Set("Content-Type", "text/"+secret+strings.Repeat("x", 10_000))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "no object")
		})
		_, err := client.Run(t.Context(), newChat(t, hello), nil)
		if err == nil || len(err.Error()) > 3000 || strings.Contains(err.Error(), secret) {
			t.Errorf("status %d: %d bytes: %.200s", status, len(err.Error()), err)
		}
	}
}
