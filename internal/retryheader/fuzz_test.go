package retryheader_test

import (
	"net/http"
	"testing"

	"github.com/headway-go/headway/internal/retryheader"
)

// Whatever the header says, the time is not negative.
func FuzzAfter(f *testing.F) {
	for _, seed := range []string{"", "5", "-1", "99999999999999999999", "1e308", "NaN", "Inf", "0x10", "Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if after := retryheader.After(http.Header{"Retry-After": {value}}); after < 0 {
			t.Errorf("%q: %v", value, after)
		}
	})
}
