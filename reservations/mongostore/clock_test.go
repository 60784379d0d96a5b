package mongostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// What the store says of its clock is what decides: the moment of an answer lies between two looks at it.
func TestNowIsTheClockThatDecides(t *testing.T) {
	t.Parallel()
	store := mongostore.New(database(t), mongostore.Options{})
	before, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limit := reservations.Limit{Name: "l", Meters: []reservations.Meter{reservations.PerSecond("tokens", 1)}}
	o, err := store.Apply(t.Context(), limit, "", []reservations.Request{{Op: reservations.OpBegin, Tokens: []float64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	after, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const step = 200 * time.Millisecond // the server's clock may run back a little
	if o[0].At.Before(before.Add(-step)) || o[0].At.After(after.Add(step)) {
		t.Errorf("decided at %v, between %v and %v", o[0].At, before, after)
	}
}

func TestNowThatWasGivenAndNowThatIsNotThere(t *testing.T) {
	t.Parallel()
	fixed := time.Date(2026, time.January, 2, 3, 4, 5, 6e6, time.UTC)
	db := database(t)
	if now, err := mongostore.New(db, mongostore.Options{Now: func() time.Time { return fixed }}).Now(t.Context()); err != nil || !now.Equal(fixed) {
		t.Errorf("%v, %v, want %v", now, err, fixed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mongostore.New(db, mongostore.Options{}).Now(ctx); !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %v", err)
	}
}
