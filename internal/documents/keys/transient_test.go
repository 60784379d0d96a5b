package keys_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestTransientErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done, all := testenv.Wrote(), testenv.Found(bson.D{{Key: "_id", Value: "hash"}})
		db, sent := testenv.MongoAnswers(t, []bson.D{
			testenv.Deadlock(), testenv.SteppingDown(), done, testenv.SteppingDown(), done, testenv.Deadlock(), all,
		})
		s := keys.InMongo(db)
		if err := s.Put(t.Context(), "hash", keys.Key{}); err != nil {
			t.Error(err)
		}
		if err := s.Delete(t.Context(), "hash"); err != nil {
			t.Error(err)
		}
		if got, err := s.All(t.Context()); err != nil || len(got) != 1 {
			t.Errorf("%v %v", got, err)
		}
		if want := []string{"update", "update", "update", "delete", "delete", "find", "find"}; !slices.Equal(sent(), want) {
			t.Errorf("sent %v, want %v", sent(), want)
		}
	})
}
