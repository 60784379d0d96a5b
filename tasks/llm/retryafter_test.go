package llm_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const date = "Sat, 21 Nov 2026 10:00:00 GMT"
	for name, c := range map[string]struct {
		header map[string]string
		want   time.Duration
	}{
		"none":                 {nil, 0},
		"seconds":              {map[string]string{"Retry-After": "2"}, 2 * time.Second},
		"a fraction":           {map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond},
		"milliseconds":         {map[string]string{"Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		"milliseconds first":   {map[string]string{"Retry-After": "2", "Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		"broken milliseconds":  {map[string]string{"Retry-After": "2", "Retry-After-Ms": "soon"}, 2 * time.Second},
		"negative":             {map[string]string{"Retry-After": "-2"}, 0},
		"not a number":         {map[string]string{"Retry-After": "NaN"}, 0},
		"forever":              {map[string]string{"Retry-After": "Inf"}, reservations.MaxWait},
		"too long":             {map[string]string{"Retry-After": "1e300"}, reservations.MaxWait},
		"text":                 {map[string]string{"Retry-After": "later"}, 0},
		"a date":               {map[string]string{"Retry-After": "Sat, 21 Nov 2026 10:01:30 GMT", "Date": date}, 90 * time.Second},
		"a date that is gone":  {map[string]string{"Retry-After": "Sat, 21 Nov 2026 09:00:00 GMT", "Date": date}, 0},
		"a date far from here": {map[string]string{"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}, reservations.MaxWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for k, v := range c.header {
				h.Set(k, v)
			}
			if got := llm.RetryAfter(h); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("1.5", "", "")
	f.Add("", "Sat, 21 Nov 2026 10:01:30 GMT", "Sat, 21 Nov 2026 10:00:00 GMT")
	f.Add("-0", "Inf", "x")
	f.Fuzz(func(t *testing.T, ms, after, date string) {
		d := llm.RetryAfter(http.Header{"Retry-After-Ms": {ms}, "Retry-After": {after}, "Date": {date}})
		if d < 0 || d > reservations.MaxWait {
			t.Fatalf("%v", d)
		}
	})
}
