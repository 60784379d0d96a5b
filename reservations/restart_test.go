package reservations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
)

// What a start took that came too late is lost: it is charged once more, and all who wait are set back by it, once.
func TestRestart(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	c := chargeOf("steady", 10)
	begin := func(p reservations.Place) reservations.Outcome {
		t.Helper()
		o, err := l.Begin(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	begin(reservations.Place{})
	behind := begin(reservations.Place{}) // due in a second
	l.now = l.now.Add(500 * time.Millisecond)
	o, err := l.Restart(t.Context(), c)
	if err != nil || o.State != reservations.StateLate || o.Wait() != 500*time.Millisecond {
		t.Fatalf("%+v, %v", o, err)
	}
	if diff := cmp.Diff(map[string]float64{"tokens": 5}, l.use("steady", "")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if o.Shift != -time.Second {
		t.Errorf("those who wait are set back by %v", -o.Shift)
	}
	l.now = l.now.Add(500 * time.Millisecond)
	if again := begin(o.Place()); !again.Started() || again.Hold != 0 {
		t.Errorf("the one that was too late: %+v", again)
	}
	if next := begin(behind.Place()); next.State != reservations.StateLate || next.Wait() != time.Second {
		t.Errorf("who stands behind it: %+v", next)
	}
}

// Who is short by little holds, as with Begin.
func TestRestartHolds(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	if _, err := l.Begin(t.Context(), chargeOf("steady", 6), reservations.Place{}); err != nil {
		t.Fatal(err)
	}
	if o, err := l.Restart(t.Context(), chargeOf("steady", 6)); err != nil || !o.Started() || o.Hold != 200*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := l.Restart(t.Context(), chargeOf("other", 1)); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("err = %v", err)
	}
	l.store.faults = []fault{down}
	if _, err := l.Restart(t.Context(), chargeOf("steady", 6)); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
}
