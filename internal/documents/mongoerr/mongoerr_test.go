package mongoerr_test

import (
	"testing"

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
