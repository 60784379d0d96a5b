package httpcall_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/bucket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is 1795262400 in Unix seconds.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// A new form of a time is one row.
func TestWhen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "1.5": 1500 * time.Millisecond, "0": 0, " 7 ": 7 * time.Second, "1e2": 100 * time.Second,
		"6m0s": 6 * time.Minute, "1h2m3.5s": time.Hour + 2*time.Minute + 3500*time.Millisecond,
		"120ms":    120 * time.Millisecond,
		"2m59.56s": 2*time.Minute + 59560*time.Millisecond, "4.2s": 4200 * time.Millisecond, "1d2h": 26 * time.Hour,
		"59 seconds": 59 * time.Second, "1 minute, 5 sec": 65 * time.Second, "1 hour and 2 mins": 62 * time.Minute,
		"250us": 250 * time.Microsecond, "0s": 0, "3 D": 72 * time.Hour,
		// Durations of ISO 8601 and of .NET.
		"PT30S": 30 * time.Second, "PT1M2.5S": 62500 * time.Millisecond, "P1DT2H": 26 * time.Hour, "pt5m": 5 * time.Minute,
		"00:00:30": 30 * time.Second, "02:10:44": 2*time.Hour + 10*time.Minute + 44*time.Second,
		"1.02:00:00.5": 26*time.Hour + 500*time.Millisecond,
		// Unix times: OpenRouter, GitHub, and others.
		"1795262430": 30 * time.Second, "1795262430.5": 30500 * time.Millisecond, "1795262430000": 30 * time.Second,
		"1795262430000000": 30 * time.Second, "1795262430000000000": 30 * time.Second, "1741305600": 0, "1741305600000": 0,
		// Dates: of HTTP in its three forms, of mail, of ISO with and without a zone.
		"Sat, 21 Nov 2026 12:01:30 GMT": 90 * time.Second, "Saturday, 21-Nov-26 12:01:30 GMT": 90 * time.Second,
		"Sat Nov 21 12:01:30 2026": 90 * time.Second, "Sat, 21 Nov 2026 13:01:30 +0100": 90 * time.Second,
		"2026-11-21T12:00:04.5Z": 4500 * time.Millisecond, "Sat, 21 Nov 2026 12:01:30 UTC": 90 * time.Second,
		"2026-11-21T12:00:04.123456": 4123456 * time.Microsecond, "2026-11-21 12:00:04+00": 4 * time.Second,
		"2026-11-21T13:00:04+01:00": 4 * time.Second,
		"2026-11-21T13:00:04+0100":  4 * time.Second, "2026-11-21T12:00:04": 4 * time.Second,
		"2026-11-21 12:00:04": 4 * time.Second, "2026-11-21 12:00:04 UTC": 4 * time.Second, "2026-11-21T11:00:00Z": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": bucket.MaxWait,
		// Numbers that are no Unix time in these centuries.
		"99999999": 99999999 * time.Second, "1e12": bucket.MaxWait, "1e300": bucket.MaxWait, "Inf": bucket.MaxWait,
		"99999999999999999999": bucket.MaxWait, "1e9999": bucket.MaxWait,
		"-1": -1, "-5s": -1, "NaN": -1, "soon": -1, "": -1, "5 apples": -1, "s": -1, "1.5.5s": -1, "3 shots": -1,
		"P": -1, "PT": -1, "12:30": -1, "1:2:3:4": -1,
		"2026-13-01T00:00:00Z": -1, "\xff": -1, "5s later": -1,
	} {
		got, _, ok := httpcall.When(text, time.Second, noon)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestSpoken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"Rate limit reached ... Limit 3, Used 3. Please try again in 20s. Visit": 20 * time.Second,
		"Please try again in 6ms.": 6 * time.Millisecond, "Please try again in 7m12s": 7*time.Minute + 12*time.Second,
		"Please retry after 86400 seconds.": 24 * time.Hour, "Please wait 32 seconds before retrying.": 32 * time.Second,
		"please try again after 1 seconds": time.Second, "Please retry in 37.8s.": 37800 * time.Millisecond,
		"Retry after about 2 minutes": 2 * time.Minute, "wait for 1 hour and 30 minutes": 90 * time.Minute,
		"try again later": -1, "retry 3 times": -1, "await 5s": -1, "the limit is 20 s": -1, "": -1,
	} {
		got, ok := httpcall.Spoken(text)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	const date = "Sat, 21 Nov 2026 10:00:00 GMT"
	for name, c := range map[string]struct {
		status int
		header map[string]string
		kind   httpcall.Kind
		wait   time.Duration
	}{
		"seconds": {429, map[string]string{"Retry-After": "5"}, httpcall.RateLimit, 5 * time.Second},
		"milliseconds": {
			429,
			map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500"},
			httpcall.RateLimit,
			1500 * time.Millisecond,
		},
		"one is garbage": {
			429, map[string]string{"Retry-After": "2", "Retry-After-Ms": "soon"}, httpcall.RateLimit, 2 * time.Second,
		},
		"by its Date": {
			503,
			map[string]string{"Retry-After": "Sat, 21 Nov 2026 10:01:30 GMT", "Date": date},
			httpcall.Overload,
			90 * time.Second,
		},
		"garbage":       {429, map[string]string{"Retry-After": "soon", "X-Ratelimit-Reset": "9"}, httpcall.RateLimit, 0},
		"at once":       {429, map[string]string{"Retry-After": "0", "X-Ratelimit-Reset": "9"}, httpcall.RateLimit, 0},
		"a plain reset": {429, map[string]string{"X-Ratelimit-Reset": "9"}, httpcall.RateLimit, 9 * time.Second},
		"draft 6": {
			429,
			map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "9"},
			httpcall.RateLimit,
			9 * time.Second,
		},
		"LiteLLM": {
			429, map[string]string{"Llm_provider-X-Ratelimit-Reset-Requests": "1795262409"}, httpcall.RateLimit, 9 * time.Second,
		},
		"X-Rate-Limit": {
			429, map[string]string{"X-Rate-Limit-Reset": "1795262409000"}, httpcall.RateLimit, 9 * time.Second,
		},
		"something left": {
			429, map[string]string{"X-Ratelimit-Remaining": "4999", "X-Ratelimit-Reset": "3600"}, httpcall.RateLimit, 0,
		},
		"GitHub": {
			403,
			map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "1795262409"},
			httpcall.RateLimit,
			9 * time.Second,
		},
		"GitHub Models": {429, map[string]string{"X-Ratelimit-Timeremaining": "86400"}, httpcall.RateLimit, 24 * time.Hour},
		"forbidden":     {403, nil, httpcall.Permanent, 0},
		"a good one":    {200, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "9"}, httpcall.Good, 0},
		"498":           {498, nil, httpcall.Overload, 0},
		"529":           {529, map[string]string{"Retry-After": "3"}, httpcall.Overload, 3 * time.Second},
		"404":           {404, nil, httpcall.Permanent, 0},
		"404, loading":  {404, map[string]string{"Retry-After": "3"}, httpcall.Overload, 3 * time.Second},
		"409":           {409, nil, httpcall.Failed, 0},
		"402":           {402, nil, httpcall.Quota, 0},
		"draft 7": {
			429, map[string]string{"RateLimit": "limit=9, remaining=0, reset=30"}, httpcall.RateLimit, 30 * time.Second,
		},
		"draft 7, forbidden": {
			403, map[string]string{"RateLimit": "limit=9, remaining=0, reset=30"}, httpcall.RateLimit, 30 * time.Second,
		},
		"draft 7, something left": {
			403, map[string]string{"RateLimit": "limit=9, remaining=3, reset=30"}, httpcall.Permanent, 0,
		},
		"Discord": {
			429,
			map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset-After": "1.5"},
			httpcall.RateLimit,
			1500 * time.Millisecond,
		},
		"Reddit": {
			429,
			map[string]string{"X-Ratelimit-Remaining": "0.0", "X-Ratelimit-Reset": "284"},
			httpcall.RateLimit,
			284 * time.Second,
		},
		"Shopify":          {430, nil, httpcall.RateLimit, 0},
		"calm":             {420, map[string]string{"Retry-After": "3"}, httpcall.RateLimit, 3 * time.Second},
		"Cosmos":           {449, map[string]string{"X-Ms-Retry-After-Ms": "12"}, httpcall.Overload, 12 * time.Millisecond},
		"449":              {449, nil, httpcall.Failed, 0},
		"499, of Google":   {499, nil, httpcall.Failed, 0},
		"509":              {509, nil, httpcall.Failed, 0},
		"509, with a time": {509, map[string]string{"Retry-After": "3"}, httpcall.Overload, 3 * time.Second},
		"507, with a time": {507, map[string]string{"Retry-After": "3"}, httpcall.Failed, 3 * time.Second},
		"redirected":       {302, nil, httpcall.Permanent, 0},
	} {
		h := http.Header{}
		for name, value := range c.header {
			h.Set(name, value)
		}
		if kind, wait := httpcall.Classify(c.status, h, noon); kind != c.kind || wait != c.wait {
			t.Errorf("%s: got %s, %v, want %s, %v", name, kind, wait, c.kind, c.wait)
		}
	}
}

// A wait that is written in each form is read as what it was.
func FuzzWhen(f *testing.F) {
	f.Add(int64(0))
	f.Add(int64(1))
	f.Add(int64(3723500))
	f.Add(int64(86400000 * 300))
	f.Fuzz(func(t *testing.T, ms int64) {
		if ms < 0 {
			ms = -ms
		}
		want := time.Duration(ms%(365*24*3600*1000)) * time.Millisecond
		at := noon.Add(want)
		seconds := want.Truncate(time.Second)
		for text, exact := range map[string]time.Duration{
			want.String(): want,
			strconv.FormatFloat(want.Seconds(), 'f', 3, 64):          want,
			strconv.FormatInt(at.UnixMilli(), 10):                    want,
			strconv.FormatInt(at.UnixNano(), 10):                     want,
			at.Format(time.RFC3339Nano):                              want,
			at.In(time.FixedZone("", 5400)).Format(time.RFC3339Nano): want,
			strconv.FormatInt(at.Unix(), 10):                         seconds,
			at.Format(http.TimeFormat):                               seconds,
			at.Format(time.DateTime):                                 seconds,
			strconv.FormatInt(want.Milliseconds(), 10) + " ms":       want,
		} {
			got, _, ok := httpcall.When(text, time.Second, noon)
			if diff := got - exact; !ok || diff.Abs() > 10*time.Microsecond {
				t.Errorf("%q: got %v, %v, want %v", text, got, ok, exact)
			}
			if strings.ContainsAny(text, "hms") && !strings.Contains(text, "GMT") {
				got, ok := httpcall.Spoken("Please try again in " + text + ". Bye")
				if diff := got - exact; !ok || diff.Abs() > 10*time.Microsecond {
					t.Errorf("spoken %q: got %v, %v, want %v", text, got, ok, exact)
				}
			}
		}
	})
}

// No header makes the wait negative, or longer than any wait.
func FuzzClassify(f *testing.F) {
	for _, seed := range []string{
		"", "5", "-0", "-1", "99999999999999999999", "1e308", "NaN", "Inf", "0x10", "Wed, 21 Oct 2015 07:28:00 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "\xff", "1795262400", "6m0s", `"a";r=0;t=30`,
	} {
		f.Add(429, seed, "Retry-After", "")
		f.Add(403, seed, "X-Ratelimit-Reset", "Sat, 21 Nov 2026 10:00:00 GMT")
		f.Add(429, seed, "Ratelimit", "")
	}
	f.Fuzz(func(t *testing.T, status int, value, name, date string) {
		h := http.Header{"Date": {date}, "X-Ratelimit-Remaining": {"0"}}
		h.Set(name, value)
		kind, wait := httpcall.Classify(status, h, noon)
		if wait < 0 || wait > bucket.MaxWait || kind == "" {
			t.Errorf("%d %v: %s, %v", status, h, kind, wait)
		}
		if good := status/100 == 2; good != (kind == httpcall.Good) {
			t.Errorf("%d is %s", status, kind)
		}
	})
}
