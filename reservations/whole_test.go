package reservations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/reservations"
)

// A charge that leaves out a meter of its limit starts nothing: zero has to be said. A limit of calls in flight alone
// needs no tokens.
func TestAChargeNamesEachMeter(t *testing.T) {
	t.Parallel()
	slots := reservations.Limit{Name: "slots", Meters: []reservations.Meter{reservations.InFlight(2)}}
	l := setupLimiter(t, openai(), slots)
	for want, c := range map[string]reservations.Charge{
		"no amount for requests, tokens: say how much it takes, 0 for none": {Limit: "openai"},
		"tokens of openai: the charge has no amount for tokens": {
			Limit: "openai", Tokens: reservations.Tokens{"requests": 1},
		},
	} {
		ctx := t.Context()
		for call, ask := range map[string]func() error{
			"Validate": func() error { return l.Validate(c) },
			"Start":    func() error { _, err := l.Ask(ctx, c); return err },
			"Reserve":  func() error { _, err := l.Reserve(ctx, c); return err },
			"Check":    func() error { _, err := l.Check(ctx, c); return err },
			"Allow":    func() error { _, err := l.Allow(ctx, c); return err },
			"Wait":     func() error { _, err := l.Wait(ctx, c); return err },
			"Do": func() error {
				return l.Do(ctx, []reservations.Charge{c}, func(context.Context) (reservations.Tokens, error) {
					t.Error("called")
					return nil, nil
				})
			},
		} {
			err := ask()
			if !errors.Is(err, reservations.ErrMeterLeftOut) || !reservations.IsPermanent(err) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", call, err, want)
			}
		}
	}
	for _, c := range []reservations.Charge{
		{Limit: "slots"}, {Limit: "openai", Tokens: reservations.Tokens{"requests": 0, "tokens": 0}},
	} {
		if g, err := l.Allow(t.Context(), c); err != nil || !g.Started() {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
