package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/products/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chat110 is a request of 40 characters, estimated at 110 tokens.
const chat110 = `{"model":"gpt-4o-mini","messages":[{"role":"user",` +
	`"content":"0123456789012345678901234567890123456789"}],"max_tokens":100}`

// named is chat110 for a task.
func named(task string) string {
	return strings.Replace(chat110, `"model"`, `"metadata":{"custom_id":"`+task+`"},"model"`, 1)
}

func newServer(t *testing.T, cfg provider.Config) *provider.Server {
	t.Helper()
	s, err := provider.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func post(ctx context.Context, s *provider.Server, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer key")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

type answer struct {
	ID, Object, Model string
	Created           int64
	Choices           []struct {
		Message struct{ Role, Content string }
		Finish  string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	Error *struct{ Message, Type, Code string }
}

func decode(t *testing.T, w *httptest.ResponseRecorder) answer {
	t.Helper()
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("answer %q: %v", w.Body, err)
	}
	return a
}

func TestChatAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(t, provider.Config{MinLatency: -1})
	w := post(t.Context(), s, "/v1/chat/completions", chat110)
	a := decode(t, w)
	if w.Code != http.StatusOK || a.Object != "chat.completion" || a.Model != "gpt-4o-mini" || a.ID == "" ||
		a.Created == 0 {
		t.Errorf("answer %d %+v", w.Code, a)
	}
	if len(a.Choices) != 1 || a.Choices[0].Message.Role != "assistant" || a.Choices[0].Finish != "stop" {
		t.Errorf("choices %+v", a.Choices)
	}
	u := a.Usage
	if u.Prompt != 10 || u.Completion < 20 || u.Completion > 50 || u.Total != u.Prompt+u.Completion {
		t.Errorf("usage %+v", u)
	}
	if w.Header().Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
	if again := decode(t, post(t.Context(), s, "/v1/chat/completions", chat110)); again.Usage != u {
		t.Errorf("the same request used %+v, then %+v", u, again.Usage)
	}
}

// The estimate is corrected when the call ends, unless the provider keeps it; a refusal is one violation.
func TestEstimateAndCorrection(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("keep=%v", keep), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, provider.Config{
					Tokens: provider.Quota{Rate: 1, Capacity: 120}, Slack: -1, KeepEstimate: keep,
					MinLatency: time.Second, MaxLatency: time.Second, UsedMin: 0.3, UsedMax: 0.3,
				})
				var wg sync.WaitGroup
				wg.Go(func() { post(t.Context(), s, "/v1/chat/completions", named("a")) })
				synctest.Wait()

				// 10 tokens are left while the call runs.
				w := post(t.Context(), s, "/v1/chat/completions", named("b"))
				wantRefusal(t, w, "tokens", "100", "100000")
				wg.Wait()

				// 1 token is refilled by time, and 70 by the correction.
				w = post(t.Context(), s, "/v1/tick", `{"id":"c"}`)
				rest := map[bool]string{false: "82", true: "12"}[keep] // 2 s have passed: a second for each call
				if got := w.Header().Get("X-Ratelimit-Remaining-Tokens"); got != rest {
					t.Errorf("remaining %s, want %s", got, rest)
				}
				r := s.Report()
				m := r.Meters[provider.MeterTokens]
				counted := map[bool]float64{false: 40, true: 110}[keep]
				if m.Estimated != 110 || m.Used != 40 || m.Counted != counted {
					t.Errorf("meter %+v", m)
				}
				if want := counted / (120 + 1*1); math.Abs(m.Utilization-want) > 1e-9 ||
					r.Utilization != m.Utilization {
					t.Errorf("utilization %v, want %v", m.Utilization, want)
				}
				if r.Requests != 3 || r.Accepted != 2 || r.Violations != 1 || r.InFlight != 0 {
					t.Errorf("report %+v", r)
				}
				if len(r.Refusals) != 1 || r.Refusals[0].Task != "b" || r.Refusals[0].Had != 10 {
					t.Errorf("refusals %+v", r.Refusals)
				}
				if r.Starts["a"] != 1 || r.Starts["b"] != 0 || r.Starts["c"] != 1 {
					t.Errorf("starts %v", r.Starts)
				}
			})
		})
	}
}

func wantRefusal(t *testing.T, w *httptest.ResponseRecorder, kind, seconds, milliseconds string) {
	t.Helper()
	a := decode(t, w)
	if w.Code != http.StatusTooManyRequests || a.Error == nil || a.Error.Type != kind ||
		a.Error.Code != "rate_limit_exceeded" {
		t.Errorf("answer %d %s, want a refusal by %s", w.Code, w.Body, kind)
	}
	if s, ms := w.Header().Get("Retry-After"), w.Header().Get("Retry-After-Ms"); s != seconds || ms != milliseconds {
		t.Errorf("retry after %q s, %q ms; want %q, %q", s, ms, seconds, milliseconds)
	}
}

// If both meters lack room, that is one violation. A refused request takes nothing. The bucket has its slack and no
// more.
func TestRequestsBySlackAndRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, requestsBySlackAndRate)
}

func requestsBySlackAndRate(t *testing.T) {
	s := newServer(t, provider.Config{
		Requests: provider.Quota{Rate: 20, Capacity: 5}, Tokens: provider.Quota{Rate: 1000, Capacity: 600},
		Slack: 100 * time.Millisecond, MinLatency: -1, KeepEstimate: true,
	})
	tick := func() *httptest.ResponseRecorder { return post(t.Context(), s, "/v1/tick", `{"id":"x"}`) }
	for i := range 7 { // 5, and 20/s for 100 ms
		if w := tick(); w.Code != http.StatusOK {
			t.Fatalf("tick %d: %d %s", i, w.Code, w.Body)
		}
	}
	wantRefusal(t, tick(), "requests", "1", "50")
	wantRefusal(t, post(t.Context(), s, "/v1/chat/completions", chat110), "requests", "1", "50")
	<-time.After(50 * time.Millisecond)
	w := tick()
	if w.Code != http.StatusOK {
		t.Errorf("on time: %d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"X-Ratelimit-Limit-Requests": "5", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "250ms",
		"X-Ratelimit-Limit-Tokens": "600", "X-Ratelimit-Remaining-Tokens": "600", "X-Ratelimit-Reset-Tokens": "0s",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	<-time.After(2 * time.Second)
	tick()
	r := s.Report()
	if r.Accepted != 9 || r.Violations != 2 || r.Starts["x"] != 9 || r.LongestGapSeconds != 2 {
		t.Errorf("report %+v", r)
	}
	m := r.Meters[provider.MeterRequests]
	if want := 9 / (5 + 20*2.05); math.Abs(m.Utilization-want) > 1e-9 {
		t.Errorf("utilization %v, want %v", m.Utilization, want)
	}
	if w := m.Windows[0]; w.Seconds != 0.1 || w.Most != 8 || w.Allowed != 7 {
		t.Errorf("window %+v", w)
	}
}

func TestRequestTooLargeEver(t *testing.T) {
	t.Parallel()
	s := newServer(t, provider.Config{Tokens: provider.Quota{Rate: 100, Capacity: 50}, MinLatency: -1})
	a := decode(t, post(t.Context(), s, "/v1/chat/completions", chat110))
	if a.Error == nil || !strings.HasPrefix(a.Error.Message, "Request too large for tokens. Limit 50, requested 110.") {
		t.Errorf("error %+v", a.Error)
	}
}

func TestCallEndsWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, provider.Config{Tokens: provider.Quota{Rate: 1, Capacity: 1000}, MinLatency: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		post(ctx, s, "/v1/chat/completions", chat110)
		r := s.Report()
		m := r.Meters[provider.MeterTokens]
		if r.InFlight != 0 || m.Used < 30 || m.Used > 60 {
			t.Errorf("in flight %d, used %v", r.InFlight, m.Used)
		}
	})
}

func TestLatencyIsOfTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took := func(body string) time.Duration {
			s := newServer(t, provider.Config{})
			start := time.Now()
			post(t.Context(), s, "/v1/tick", body)
			return time.Since(start)
		}
		seen := map[time.Duration]bool{}
		for i := range 50 {
			body := fmt.Sprintf(`{"id":"%d"}`, i)
			d := took(body)
			if d < provider.MinLatencyDefault || d > provider.MaxLatencyDefault {
				t.Errorf("latency %v", d)
			}
			if again := took(body); again != d {
				t.Errorf("latency %v, then %v", d, again)
			}
			seen[d] = true
		}
		if len(seen) < 45 {
			t.Errorf("%d latencies differ, of 50", len(seen))
		}
	})
}

func TestRequestsAtFault(t *testing.T) {
	t.Parallel()
	s := newServer(t, provider.Config{Requests: provider.Quota{Rate: 1, Capacity: 1}, MinLatency: -1})
	const chat = "/v1/chat/completions"
	for name, c := range map[string]struct {
		path, body, key string
		status          int
	}{
		"no key":         {chat, chat110, "", 401},
		"empty key":      {chat, chat110, "Bearer  ", 401},
		"another scheme": {chat, chat110, "Basic eDp5", 401},
		"no JSON":        {chat, `{`, "Bearer k", 400},
		"no model":       {chat, `{"messages":[{"role":"user","content":"x"}]}`, "Bearer k", 400},
		"no messages":    {chat, `{"model":"m"}`, "Bearer k", 400},
		"content is a 1": {chat, `{"model":"m","messages":[{"role":"user","content":1}]}`, "Bearer k", 400},
		"no max_tokens": {
			chat, `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":0}`, "Bearer k",
			400,
		},
		"stream": {
			"/v1/embeddings", `{"model":"m","input":"x","stream":true}`, "Bearer k",
			400,
		},
		"tick of no JSON": {"/v1/tick", `x`, "Bearer k", 400},
		"unknown path":    {"/v1/images", `{}`, "Bearer k", 404},
	} {
		w := post(t.Context(), s, c.path, c.body, "Authorization", c.key)
		if a := decode(t, w); w.Code != c.status || a.Error == nil || a.Error.Message == "" {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, c.status)
		}
	}
	if r := s.Report(); r.Requests != 0 {
		t.Errorf("requests at fault were counted: %+v", r)
	}
}

func TestEstimateOfContentForms(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]float64{
		`"messages":[{"role":"system","content":"abc"},{"role":"user","content":"äöü"}],` +
			`"max_tokens":10`: 12,
		`"messages":[{"role":"user","content":[{"type":"text","text":"12345"},{"type":"text","text":"6"}]}],` +
			`"max_tokens":5`: 7,
		`"messages":[{"role":"assistant","content":null},{"role":"user","content":""}],"max_completion_tokens":20,` +
			`"max_tokens":10`: 20,
		`"messages":[{"role":"user","content":"1"}]`: 17,
	} {
		s := newServer(t, provider.Config{Tokens: provider.Quota{Rate: 1, Capacity: 1000}, MinLatency: -1})
		if w := post(t.Context(), s, "/v1/chat/completions", `{"model":"m",`+body+`}`); w.Code != http.StatusOK {
			t.Fatalf("%s: %s", body, w.Body)
		}
		if got := s.Report().Meters[provider.MeterTokens].Estimated; got != want {
			t.Errorf("%s: %v tokens, want %v", body, got, want)
		}
	}
}

func TestTaskOfMetadata(t *testing.T) {
	t.Parallel()
	s := newServer(t, provider.Config{MinLatency: -1})
	for _, key := range []string{"custom_id", "headway_task"} {
		post(t.Context(), s, "/v1/chat/completions", strings.Replace(named("task-1"), "custom_id", key, 1))
	}
	if got := s.Report().Starts["task-1"]; got != 2 {
		t.Errorf("%d starts", got)
	}
}

func TestConfigAtFault(t *testing.T) {
	t.Parallel()
	_, err := provider.New(provider.Config{
		Requests: provider.Quota{Rate: -1}, Tokens: provider.Quota{Rate: 1}, Addr: "0.0.0.0:0",
		MinLatency: 2, MaxLatency: 1, UsedMin: 0.5, UsedMax: 1.5,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, field := range []string{"Requests.Rate", "Tokens.Capacity", "Addr", "MinLatency", "UsedMin"} {
		if !strings.Contains(err.Error(), "provider: "+field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
}

// Of many concurrent requests over the network, exactly the allowed number is accepted.
func TestStart(t *testing.T) {
	t.Parallel()
	s, err := provider.Start(provider.Config{
		Requests: provider.Quota{
			Rate:     1e-6,
			Capacity: 20,
		}, MinLatency: time.Millisecond, MaxLatency: 2 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	do := func(method, url, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("Authorization", "Bearer k")
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		return res.StatusCode, string(text)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { do(http.MethodPost, s.URL()+"/tick", fmt.Sprintf(`{"id":"%d"}`, i)) })
	}
	wg.Wait()
	root := strings.TrimSuffix(s.URL(), "/v1")
	if status, text := do(http.MethodGet, root+"/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, text)
	}
	_, text := do(http.MethodGet, root+"/report", "")
	var r provider.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Accepted != 20 || r.Violations != 30 || len(r.Starts) != 20 || len(r.Refusals) != 20 || r.InFlight != 0 {
		t.Errorf("report %s", text)
	}
	client.CloseIdleConnections()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if w := post(t.Context(), s, "/v1/tick", `{}`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", w.Code)
	}
	if s.Report().Accepted != 20 {
		t.Error("the report is empty after Close")
	}
}

// Close does not wait for the latency of an answer, and its call counts as ended.
func TestCloseEndsCalls(t *testing.T) {
	t.Parallel()
	s, err := provider.Start(provider.Config{MinLatency: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/tick", strings.NewReader(`{}`))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer k")
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	for s.Report().InFlight == 0 {
		runtime.Gosched()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended
	if n := s.Report().InFlight; n != 0 {
		t.Errorf("%d in flight after Close", n)
	}
}

// Each endpoint that streams sends events, each of one JSON object, and the usage at the end if it is asked for.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := newServer(t, provider.Config{MinLatency: -1})
	for path, body := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"x"}],"stream_options":{"include_usage":true}`,
		"/v1/completions":      `"prompt":"x","stream_options":{"include_usage":true}`,
		"/v1/responses":        `"input":"x"`,
		"/v1/messages":         `"max_tokens":10,"messages":[{"role":"user","content":"x"}]`,
	} {
		w := post(t.Context(), s, path, `{"model":"m","stream":true,`+body+`}`, "X-Api-Key", "k")
		if kind := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(kind, "text/event-stream") {
			t.Fatalf("%s: %d, %s: %s", path, w.Code, kind, w.Body)
		}
		text := w.Body.String()
		for line := range strings.SplitSeq(text, "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if ok && data != "[DONE]" && !json.Valid([]byte(data)) {
				t.Errorf("%s: %s", path, line)
			}
		}
		if !strings.Contains(text, `"usage": {`) && !strings.Contains(text, `"usage":{`) || !strings.HasSuffix(text, "\n\n") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
