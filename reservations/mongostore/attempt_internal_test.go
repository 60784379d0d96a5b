package mongostore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/headway-go/headway/reservations"
)

// conflicts are what first writers of one bucket see on the servers we know.
func conflicts() []error {
	return []error{
		mongo.CommandError{Code: 11000, Message: "E11000 duplicate key error collection"},
		mongo.CommandError{Code: 112, Message: "WriteConflict"},
		mongo.CommandError{Code: 9, Name: "FailedToParse", Message: "The $$NOW operator cannot be used within this specific context."},
	}
}

func TestConflictsAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, conflict := range conflicts() {
			calls := 0
			err := new(Store).attempt(t.Context(), "api", func(context.Context) error {
				calls++
				if calls < maxAttempts {
					return conflict
				}
				return nil
			})
			if err != nil || calls != maxAttempts {
				t.Errorf("%v: %d calls, %v", conflict, calls, err)
			}
		}
	})
}

func TestContended(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, conflict := range conflicts() {
			calls := 0
			err := new(Store).attempt(t.Context(), "api", func(context.Context) error {
				calls++
				return conflict
			})
			var u *reservations.UnavailableError
			if !errors.Is(err, reservations.ErrContended) || !errors.Is(err, reservations.ErrUnavailable) || !errors.As(err, &u) {
				t.Fatalf("got %v", err)
			}
			if u.Applied != reservations.AppliedNo || calls != maxAttempts {
				t.Errorf("applied %q after %d calls", u.Applied, calls)
			}
		}
	})
}

func TestCancelledBetweenAttempts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := new(Store).attempt(ctx, "api", func(context.Context) error {
		cancel()
		return conflicts()[0]
	})
	var u *reservations.UnavailableError
	if !errors.As(err, &u) || u.Applied != reservations.AppliedNo || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestApplied(t *testing.T) {
	t.Parallel()
	network := mongo.CommandError{Message: "connection reset", Labels: []string{"NetworkError"}}
	for _, c := range []struct {
		name      string
		err       error
		sent      int32
		monitored bool
		want      reservations.Applied
	}{
		{"answer lost", network, 1, true, reservations.AppliedMaybe},
		{"never sent", errors.New("pool cleared"), 0, true, reservations.AppliedNo},
		{"never sent, but who knows", errors.New("pool cleared"), 0, false, reservations.AppliedMaybe},
		{"no server", fmt.Errorf("wrapped: %w", topology.ServerSelectionError{}), 0, false, reservations.AppliedNo},
		{"no connection", topology.WaitQueueTimeoutError{}, 0, false, reservations.AppliedNo},
		{"not allowed", mongo.CommandError{Code: 13}, 1, true, reservations.AppliedNo},
		{"not primary", mongo.CommandError{Code: 10107}, 1, true, reservations.AppliedNo},
		{"repeated by the driver, then not primary", mongo.CommandError{Code: 10107}, 2, true, reservations.AppliedMaybe},
		{"interrupted", mongo.CommandError{Code: 11602}, 1, true, reservations.AppliedMaybe},
		{"majority not reached", mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, 1, true, reservations.AppliedMaybe},
	} {
		s := new(Store)
		s.monitored.Store(c.monitored)
		if got := s.applied(c.err, c.sent); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
