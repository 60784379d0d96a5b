package httpcall_test

import (
	"net/http"
	"testing"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/httpcall"
)

// No header makes the duration negative, or longer than any wait.
func FuzzWait(f *testing.F) {
	for _, seed := range []string{
		"", "5", "-0", "-1", "99999999999999999999", "1e308", "NaN", "Inf", "0x10", "Wed, 21 Oct 2015 07:28:00 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "\xff",
	} {
		f.Add(seed, "", "")
		f.Add("", seed, "Sat, 21 Nov 2026 10:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, after, ms, date string) {
		h := http.Header{"Retry-After": {after}, "Retry-After-Ms": {ms}, "Date": {date}}
		if d := httpcall.Wait(h); d < 0 || d > bucket.MaxWait {
			t.Errorf("%v: %v", h, d)
		}
	})
}
