package mongostore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/headway-go/headway/internal/bucket"
)

func TestApplied(t *testing.T) {
	t.Parallel()
	network := mongo.CommandError{Message: "connection reset", Labels: []string{"NetworkError"}}
	for _, c := range []struct {
		name      string
		err       error
		sent      int32
		monitored bool
		want      bucket.Applied
		bucket    bool
	}{
		{"answer lost", network, 1, true, bucket.AppliedMaybe, false},
		{"never sent", errors.New("pool cleared"), 0, true, bucket.AppliedNo, false},
		{"never sent, without a monitor", errors.New("pool cleared"), 0, false, bucket.AppliedMaybe, false},
		{"no server", fmt.Errorf("wrapped: %w", topology.ServerSelectionError{}), 0, false, bucket.AppliedNo, false},
		{"no connection", topology.WaitQueueTimeoutError{}, 0, false, bucket.AppliedNo, false},
		{"not allowed", mongo.CommandError{Code: 13}, 1, true, bucket.AppliedNo, false},
		{"not primary", mongo.CommandError{Code: 10107}, 1, true, bucket.AppliedNo, false},
		{"sent twice, then not primary", mongo.CommandError{Code: 10107}, 2, true, bucket.AppliedMaybe, false},
		{"interrupted", mongo.CommandError{Code: 11602}, 1, true, bucket.AppliedMaybe, false},
		{
			"majority not reached",
			mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}},
			1, true,
			bucket.AppliedMaybe, false,
		},
		{"too large for the server", mongo.CommandError{Code: 10334}, 1, true, bucket.AppliedNo, true},
		{"too large for the driver", driver.ErrDocumentTooLarge, 0, false, bucket.AppliedMaybe, true},
		{
			"an insert that is refused",
			mongo.WriteException{WriteErrors: []mongo.WriteError{{Message: "index row"}}},
			1, true,
			bucket.AppliedNo, true,
		},
	} {
		s := new(Store)
		s.monitored.Store(c.monitored)
		if got := s.applied(c.err, c.sent); got != c.want || isOfOneDocument(c.err) != c.bucket {
			t.Errorf("%s: applied %q, of one document %v", c.name, got, isOfOneDocument(c.err))
		}
	}
}

func TestIsSlowAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		silent time.Duration
		want   bool
	}{
		{context.DeadlineExceeded, -time.Hour, true},   // ahead, because the test may stall
		{context.DeadlineExceeded, time.Minute, false}, // the store may be away
		{context.Canceled, 0, false},
		{errors.New("connection reset"), 0, false},
	} {
		s := &Store{}
		s.answered.Store(time.Now().Add(-c.silent).UnixNano())
		if got := s.isSlowAlone(c.err); got != c.want {
			t.Errorf("%v after %v of silence: %t", c.err, c.silent, got)
		}
	}
}
