package reservations_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
)

// What was started is there again, nobody else has it, and who gave it back starts with it.
func TestYieldKeepsTheTurn(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	begin := func(p reservations.Place) reservations.Outcome {
		t.Helper()
		o, err := l.Begin(t.Context(), chargeOf("steady", 10), p)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := begin(reservations.Place{}); !o.Started() {
		t.Fatalf("%+v", o)
	}
	behind := begin(reservations.Place{})
	yielded, err := l.Yield(t.Context(), chargeOf("steady", 10))
	if err != nil || yielded.Shift != 0 || yielded.At.IsZero() {
		t.Errorf("yield: %+v, %v", yielded, err)
	}
	if diff := cmp.Diff(map[string]float64{"tokens": 10}, l.use("steady", "")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if o := begin(behind.Place()); o.State != reservations.StateLate {
		t.Errorf("who stands behind it comes early, and is given %+v", o)
	}
	if o := begin(reservations.Place{State: reservations.StateLate}); !o.Started() || o.Hold != 0 {
		t.Errorf("who gave it back is given %+v", o)
	}
}

// Only what is known not to have been applied is repeated: giving back twice would let too many start.
func TestYieldRepeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults []fault
		calls  int
		left   float64
		fails  error
	}{
		{"no fault", nil, 1, 10, nil},
		{"down", []fault{down, down}, 3, 10, nil},
		{"answer lost", []fault{lost}, 1, 10, reservations.ErrUnavailable},
		{"untold", []fault{untold}, 1, 6, reservations.ErrUnavailable},
		{"down, then hanging", []fault{down, hanging}, 2, 6, reservations.ErrUnavailable},
		{"another error", []fault{breaking}, 1, 6, errCable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, steady())
				if _, err := l.Begin(t.Context(), chargeOf("steady", 4), reservations.Place{}); err != nil {
					t.Fatal(err)
				}
				l.store.faults = c.faults
				if _, err := l.Yield(t.Context(), chargeOf("steady", 4)); !errors.Is(err, c.fails) {
					t.Errorf("err = %v, want %v", err, c.fails)
				}
				if calls := len(l.store.asked()) - 1; calls != c.calls {
					t.Errorf("%d calls, want %d", calls, c.calls)
				}
				if left := l.use("steady", "")["tokens"]; left != c.left {
					t.Errorf("%v tokens are left, want %v", left, c.left)
				}
			})
		})
	}
}

func TestYieldOfNothing(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	if o, err := l.Yield(t.Context(), chargeOf("steady", 0)); err != nil || o != (reservations.Outcome{}) {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := l.Yield(t.Context(), chargeOf("else", 1)); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("%v", err)
	}
	if calls := len(l.store.asked()); calls != 0 {
		t.Errorf("%d calls", calls)
	}
}
