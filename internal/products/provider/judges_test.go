package provider_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/products/provider"
)

// began is when the clock of a test begins.
var began = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

func at(t *testing.T, s *provider.Server, after time.Duration, user string) (status int, retryAfter string) {
	t.Helper()
	<-time.After(time.Until(began.Add(after)))
	body := strings.Replace(chat110, `"model"`, fmt.Sprintf(`"user":%q,"model"`, user), 1)
	w := post(t.Context(), s, "/v1/chat/completions", body)
	return w.Code, w.Header().Get("Retry-After")
}

type arrival struct {
	after      time.Duration
	user       string
	code       int
	retryAfter string
}

func play(t *testing.T, s *provider.Server, arrivals []arrival) {
	t.Helper()
	for i, a := range arrivals {
		if code, after := at(t, s, a.after, a.user); code != a.code || after != a.retryAfter {
			t.Errorf("arrival %d: %d %q, want %d %q", i, code, after, a.code, a.retryAfter)
		}
	}
}

const (
	ok   = http.StatusOK
	many = http.StatusTooManyRequests
)

// A window allows its number of requests at any time. A request just after its end may still count for it.
func TestWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testWindow)
}

func testWindow(t *testing.T) {
	s := newServer(t, provider.Config{
		Window: provider.WindowQuota{Requests: 3, Period: 10 * time.Second}, Slack: 50 * time.Millisecond,
		MinLatency: -1,
	})
	play(t, s, []arrival{
		{0, "", ok, ""},
		{time.Second, "", ok, ""},
		{2 * time.Second, "", ok, ""},
		{4 * time.Second, "", many, "6"},
		{10*time.Second + 10*time.Millisecond, "", ok, ""}, // the window before had no request left
		{11 * time.Second, "", ok, ""},
		{20*time.Second + 10*time.Millisecond, "", ok, ""}, // the window before had one request left
		{20*time.Second + 20*time.Millisecond, "", ok, ""},
		{20*time.Second + 60*time.Millisecond, "", ok, ""},
		{29 * time.Second, "", ok, ""},
		{29 * time.Second, "", many, "1"},
		{50 * time.Second, "", ok, ""}, // requests left in earlier windows are lost
	})
	r := s.Report()
	if m := r.Meters[provider.MeterWindow]; r.Violations != 2 || m.Counted != 10 || m.Windows[0].Most != 4 ||
		m.Windows[0].Allowed != 3 {
		t.Errorf("violations %d, window %+v", r.Violations, m)
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTenants)
}

func testTenants(t *testing.T) {
	s := newServer(t, provider.Config{
		Requests: provider.Quota{Rate: 10, Capacity: 10}, Tenants: map[string]provider.Quota{"small": {
			Rate:     1,
			Capacity: 1,
		}},
		Slack: -1, MinLatency: -1,
	})
	play(t, s, []arrival{
		{0, "small", ok, ""},
		{0, "small", many, "1"},
		{0, "large", ok, ""},
		{time.Second, "small", ok, ""},
	})
	r := s.Report()
	if r.Violations != 1 || r.Refusals[0].Meter != "tenant:small" || r.Meters["tenant:small"].Counted != 2 ||
		r.Meters["requests"].Counted != 3 {
		t.Errorf("%+v", r)
	}
}

// One request is refused, and requests that arrive during the block are counted.
func TestBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testBlock)
}

func testBlock(t *testing.T) {
	s := newServer(t, provider.Config{
		Block: provider.Block{
			Number: 2,
			For:    5 * time.Second,
		}, MinLatency: -1,
	})
	play(t, s, []arrival{
		{0, "", ok, ""},
		{time.Second, "", many, "5"},
		{time.Second + 900*time.Millisecond, "", ok, ""}, // within a second a worker may not know of the block
		{2 * time.Second, "", ok, ""},
		{5*time.Second + 900*time.Millisecond, "", ok, ""},
		{6 * time.Second, "", ok, ""},
	})
	if r := s.Report(); r.Violations != 0 || r.Blocked != 2 || !r.BlockedAt.Equal(began.Add(time.Second)) {
		t.Errorf("violations %d, blocked %d at %v", r.Violations, r.Blocked, r.BlockedAt)
	}
}

func TestJudgesAtFault(t *testing.T) {
	t.Parallel()
	_, err := provider.New(provider.Config{
		Window: provider.WindowQuota{Requests: 1}, Block: provider.Block{Number: 1},
		Trouble: provider.Trouble{Refuse: 0.5}, Tenants: map[string]provider.Quota{"a": {Rate: 1}},
	})
	for _, field := range []string{"Window", "Block", "Trouble", "Tenants.a.Capacity"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// The headers show the remaining tokens when the answer leaves, after its correction, or when the request arrives.
func TestMomentOfTheHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		onArrival bool
		want      map[string]string
	}{
		"answer": {false, map[string]string{
			"Limit-Tokens": "600", "Remaining-Tokens": "540", "Reset-Tokens": "6s",
			"Remaining-Requests": "4", "Reset-Requests": "1s",
		}},
		"arrival": {true, map[string]string{
			"Limit-Tokens": "600", "Remaining-Tokens": "490", "Reset-Tokens": "11s",
			"Remaining-Requests": "4", "Reset-Requests": "1s",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, provider.Config{
					Requests: provider.Quota{Rate: 1, Capacity: 5}, Tokens: provider.Quota{
						Rate:     10,
						Capacity: 600,
					}, Slack: -1,
					MinLatency: -1, UsedMin: 0.5, UsedMax: 0.5, HeadersOnArrival: c.onArrival,
				})
				w := post(t.Context(), s, "/v1/chat/completions", chat110)
				for name, want := range c.want {
					if got := w.Header().Get("X-Ratelimit-" + name); got != want {
						t.Errorf("%s %q, want %q", name, got, want)
					}
				}
			})
		})
	}
}

// The configured shares of many requests fail. Requests within the time of a refusal are counted.
func TestTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTrouble)
}

func testTrouble(t *testing.T) {
	s := newServer(t, provider.Config{
		Trouble:    provider.Trouble{Refuse: 0.07, For: 3 * time.Second, Fail: 0.05, Drop: 0.02},
		MinLatency: -1,
	})
	codes := map[int]int{}
	dropped := func() (dropped bool) {
		defer func() { dropped = recover() != nil }()
		codes[post(t.Context(), s, "/v1/chat/completions", chat110).Code]++
		return false
	}
	for range 1000 {
		<-time.After(2 * time.Second)
		if dropped() {
			codes[0]++
		}
	}
	r := s.Report()
	if codes[429] < 50 || codes[429] > 90 || codes[500] < 35 || codes[500] > 65 || codes[0] < 10 || codes[0] > 32 {
		t.Errorf("answers %v", codes)
	}
	if len(r.Troubles) != codes[429] || r.Failed != codes[500]+codes[0] || r.Violations != 0 ||
		r.Accepted != 1000-codes[429] || r.InFlight != 0 {
		t.Errorf("%d refused, %d failed, %d violations, %d accepted, %d in flight", len(r.Troubles), r.Failed,
			r.Violations, r.Accepted, r.InFlight)
	}
	if one := r.Troubles[0]; one.Until.Sub(one.At) != 3*time.Second || one.Within != 1 ||
		one.LastWithin != 2*time.Second {
		t.Errorf("first refusal %+v", one)
	}
	if len(r.Times) != r.Accepted || !slices.IsSortedFunc(r.Times, time.Time.Compare) {
		t.Errorf("%d times of %d requests", len(r.Times), r.Accepted)
	}
}
