package retryheader_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/retryheader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value, date string
		want              time.Duration
	}{
		{"Retry-After", "5", "", 5 * time.Second},
		{"Retry-After", "1.5", "", 1500 * time.Millisecond},
		{"Retry-After-Ms", "35", "", 35 * time.Millisecond},
		{"Retry-After", "Sat, 21 Nov 2026 10:01:30 GMT", "Sat, 21 Nov 2026 10:00:00 GMT", 90 * time.Second},
		{"Retry-After", "Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:01:30 GMT", 0},
		{"Retry-After", "1e300", "", bucket.MaxWait},
		{"Retry-After", "-1", "", 0},
		{"Retry-After", "NaN", "", 0},
		{"Retry-After", "soon", "", 0},
		{"X-Other", "5", "", 0},
	} {
		if got := retryheader.After(http.Header{c.name: {c.value}, "Date": {c.date}}); got != c.want {
			t.Errorf("%s: %s: got %v, want %v", c.name, c.value, got, c.want)
		}
	}
}
