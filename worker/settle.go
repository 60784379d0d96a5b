package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
)

// settler starts the charges of deliveries and corrects them afterwards, in the background: asynq need not wait for it,
// Stop does.
type settler struct {
	journal

	limiter    *reservations.Limiter
	dispatcher *dispatcher.Dispatcher
	pending    *pending
	timeout    time.Duration // of a correction
	corrected  corrections
}

// start lets the delivery start its charges, and settle them.
func (s *settler) start(d *delivery) start {
	return inside.Of(s.limiter).Start(d.charges, d.id, &settling{s, d})
}

// settling joins the charges of a delivery to the worker.
type settling struct {
	*settler

	d *delivery
}

// Changed passes on an answer of a bucket.
func (s *settling) Changed(o reservations.Outcome) { s.dispatcher.Changed(o) }

// Send sends a correction in the background.
func (s *settling) Send(ctx context.Context, send func(context.Context) error) error {
	s.later(ctx, s.d, send)
	return nil
}

// Settled reports the answer of one bucket to a correction.
func (s *settling) Settled(
	ctx context.Context, c reservations.Charge, used reservations.Tokens, o reservations.Outcome, err error,
) {
	if err != nil {
		const text = "not all could be settled, the estimate stays charged there"
		s.logCharge(ctx, s.d, c, slog.LevelWarn, text, slog.Any("error", err))
	}
	s.emit(Event{Kind: KindSettled, Task: s.d.ref(), Charge: c, Used: used, Outcome: o, Err: err})
}

// settle corrects the charges by what was used, and ends leases. Nothing reported keeps the estimate: the API may have
// been called. A limit that settles by `keep` gets its tokens back only if no call was made.
func (s *settler) settle(ctx context.Context, d *delivery, err error) {
	if d.start == nil {
		return
	}
	if notCalled(err) {
		_ = d.start.Cancel(ctx)
		return
	}
	_ = d.start.Settle(ctx, d.usage.tokens())
}

// later sends a correction in the background.
func (s *settler) later(ctx context.Context, d *delivery, send func(context.Context) error) {
	done := s.pending.add(kindSettlement, d.id)
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	d.settling.Add(1)
	go func() {
		defer done()
		defer d.settling.Done()
		defer cancel()
		_ = send(sending)
	}()
}
