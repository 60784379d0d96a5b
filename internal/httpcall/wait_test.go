package httpcall_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/httpcall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWait(t *testing.T) {
	t.Parallel()
	const date = "Sat, 21 Nov 2026 10:00:00 GMT"
	for _, c := range []struct {
		after, ms, date string
		want            time.Duration
	}{
		{"5", "", "", 5 * time.Second},
		{"1.5", "", "", 1500 * time.Millisecond},
		{"", "35", "", 35 * time.Millisecond},
		{"2", "1500", "", 1500 * time.Millisecond},
		{"2", "soon", "", 2 * time.Second},
		{"Sat, 21 Nov 2026 10:01:30 GMT", "", date, 90 * time.Second},
		{"Sat, 21 Nov 2026 09:00:00 GMT", "", date, 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "", "", bucket.MaxWait},
		{"1e300", "", "", bucket.MaxWait},
		{"Inf", "", "", bucket.MaxWait},
		{"-1", "", "", 0},
		{"NaN", "", "", 0},
		{"soon", "", "", 0},
		{"", "", "", 0},
	} {
		h := http.Header{"Retry-After": {c.after}, "Retry-After-Ms": {c.ms}, "Date": {c.date}}
		if got := httpcall.Wait(h); got != c.want {
			t.Errorf("%v: got %v, want %v", h, got, c.want)
		}
	}
}
