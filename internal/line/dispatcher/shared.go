package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/calls/seldom"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// shared is what all parts of a Dispatcher stand on.
type shared struct {
	// Promoted is called with the tasks that were promoted, for tests. May be nil; set before Start.
	Promoted func([]waitlist.Task)

	log     *slog.Logger
	limiter *reservations.Limiter // nil: nothing is reserved or checked
	queues  *asynqdb.DB
	list    *waitlist.Waitlist
	report  *reporter
	unfreed seldom.Warning // warnings of reservations that were not given back

	background sync.WaitGroup
}

// after does in the background what belongs to tasks that were seen to already. A failure is logged at debug level:
// nets, refill and later looks mend it.
func (s *shared) after(
	ctx context.Context, failed string, do func(context.Context) error, attrs ...slog.Attr,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), AfterTimeout)
	s.background.Go(func() {
		defer cancel()
		if err := do(ctx); err != nil {
			s.log.LogAttrs(ctx, slog.LevelDebug, failed, append(attrs, slog.Any("error", err))...)
		}
	})
}

// Changed says that a bucket's answer may let waiting tasks start earlier or later than expected: that of the Outcome's
// Charge. Such an answer is above all one to a settlement, a block, or a sync. It never blocks: the newest answer of
// each bucket is sent within 30 ms. The zero Outcome is ignored.
func (s *shared) Changed(o reservations.Outcome) {
	s.report.answer(o.Charge.Bucket(), o.Bucket, true)
}

// releaseOne gives back what a task holds that will not start.
func (s *shared) releaseOne(ctx context.Context, c reservations.Charge) {
	o, err := inside.Of(s.limiter).Release(ctx, c)
	if err != nil {
		level := slog.LevelDebug
		if s.unfreed.Due(time.Now()) {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "reservation not released; further ones are logged at debug level for a minute",
			slog.String("bucket", c.Bucket().String()), slog.Any("error", err))
		return
	}
	s.Changed(o)
}
