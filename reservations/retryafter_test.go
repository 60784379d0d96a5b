package reservations_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    time.Duration
		err  error
		want time.Duration
		text string
	}{
		{5 * time.Second, io.EOF, 5 * time.Second, "EOF"},
		{5 * time.Second, nil, 5 * time.Second, "refused by the provider, retry after 5s"},
		{365 * 24 * time.Hour, io.EOF, bucket.MaxBlockMost, "EOF"},
		{math.MaxInt64, io.EOF, bucket.MaxBlockMost, "EOF"},
		{0, io.EOF, 0, "EOF"},
		{-time.Second, io.EOF, -time.Second, "EOF"},
	} {
		err := fmt.Errorf("call: %w", reservations.RetryAfter(c.d, c.err))
		e, ok := errors.AsType[*reservations.RetryAfterError](err)
		if !ok || e.After != c.want || e.Error() != c.text || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("of %v: %#v (%v)", c.d, e, err)
		}
		if errors.Is(err, tasks.ErrPermanent) {
			t.Errorf("%v is permanent", err)
		}
	}
	if err := reservations.RetryAfter(time.Second, tasks.Permanent(io.EOF)); !errors.Is(err, tasks.ErrPermanent) {
		t.Error("a permanent cause must stay permanent")
	}
}
