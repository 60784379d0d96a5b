package mongoerr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/documents/mongoerr"
)

func TestConflicts(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		mongo.CommandError{Code: 11000, Message: "E11000 duplicate key error collection"},
		mongo.CommandError{Code: 112, Message: "WriteConflict"},
		mongo.CommandError{Code: 1, Message: "duplicate key value violates unique constraint"},
		mongo.WriteException{WriteErrors: []mongo.WriteError{{Code: 11000}}},
	} {
		if !mongoerr.Conflict(err) {
			t.Errorf("%v is no conflict", err)
		}
	}
	if err := (mongo.CommandError{Code: 2}); mongoerr.Conflict(err) {
		t.Errorf("%v is a conflict", err)
	}
}

func TestTransient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err               error
		transient, undone bool
	}{
		{mongo.CommandError{Code: 1, Message: "deadlock detected"}, true, true}, // FerretDB
		{mongo.CommandError{Code: 1, Message: "could not serialize access due to concurrent update"}, true, true},
		{mongo.CommandError{Code: 112, Message: "WriteConflict"}, true, true},
		{mongo.CommandError{Code: 24, Message: "LockTimeout"}, true, true},
		{mongo.WriteException{WriteErrors: []mongo.WriteError{{Code: 16908292}}}, true, true},
		{mongo.BulkWriteError{WriteError: mongo.WriteError{Code: 1, Message: "deadlock detected"}}, true, true},
		{mongo.CommandError{Labels: []string{"TransientTransactionError"}}, true, false},
		{mongo.CommandError{Labels: []string{"RetryableWriteError"}}, true, false},
		{mongo.CommandError{Message: "connection reset", Labels: []string{"NetworkError"}}, true, false},
		{mongo.CommandError{Code: 189, Name: "PrimarySteppedDown"}, true, false},
		{mongo.CommandError{Code: 11602, Name: "InterruptedDueToReplStateChange"}, true, false},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 189}}, true, false},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, false, false}, // not yet by a majority
		{mongo.CommandError{Code: 13, Name: "Unauthorized"}, false, false},
		{mongo.CommandError{Code: 11000, Name: "DuplicateKey"}, false, false},
		{errors.New("deadlock detected"), false, false}, // of no server
		{nil, false, false},
	} {
		wrapped := c.err
		if c.err != nil {
			wrapped = fmt.Errorf("write: %w", c.err)
		}
		if mongoerr.Transient(wrapped) != c.transient || mongoerr.Undone(wrapped) != c.undone {
			t.Errorf("%v: transient %v, undone %v", wrapped, mongoerr.Transient(wrapped), mongoerr.Undone(wrapped))
		}
	}
}

// A write that may have been applied is repeated only where it has the same effect twice.
func TestRepeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err                               error
			repeatedly, upsert, unlessApplied int
		}{
			{mongo.CommandError{Code: 1, Message: "deadlock detected"}, 2, 2, 2},
			{mongo.CommandError{Labels: []string{"NetworkError"}}, 2, 2, 1},
			{mongo.CommandError{Code: 11000}, 1, 2, 1},
			{mongo.CommandError{Code: 13}, 1, 1, 1},
		} {
			count := func(by func(context.Context, func() error) error) int {
				calls := 0
				_ = by(t.Context(), func() error {
					if calls++; calls == 1 {
						return c.err
					}
					return nil
				})
				return calls
			}
			repeatedly, upsert := count(mongoerr.Repeatedly), count(mongoerr.Upsert)
			unlessApplied := count(mongoerr.UnlessApplied)
			if repeatedly != c.repeatedly || upsert != c.upsert || unlessApplied != c.unlessApplied {
				t.Errorf("%v: calls %d, %d, %d", c.err, repeatedly, upsert, unlessApplied)
			}
		}
	})
}
