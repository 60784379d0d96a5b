package mongostore_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
)

// answers returns a store whose server gives these answers, and the commands that it got.
func answers(t *testing.T, all ...bson.D) (*mongostore.Store, func() []string) {
	t.Helper()
	db, sent := testenv.MongoAnswers(t, all, func(o *options.ClientOptions) {
		theirs, err := mongostore.ClientOptions("mongodb://none")
		if err != nil {
			t.Fatal(err)
		}
		o.SetMonitor(theirs.Monitor)
	})
	now := time.Now()
	return mongostore.New(db, mongostore.Options{}).WithClock(func() time.Time { return now }), sent
}

// A deadlock loses no start: the store rolled the write back, and it is sent again.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sent := answers(t,
			testenv.Deadlock(), testenv.Found(), testenv.Deadlock(), testenv.Deadlock(), testenv.Wrote())
		o, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(1))
		if err != nil || !o[0].Started() {
			t.Errorf("%+v, %v", o, err)
		}
		if want := []string{"find", "find", "insert", "insert", "insert"}; !slices.Equal(sent(), want) {
			t.Errorf("sent %v, want %v", sent(), want)
		}
	})
}

// A bucket that deadlocks each time is unavailable, and nothing was taken from it.
func TestDeadlockForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sent := answers(t, append([]bson.D{testenv.Found()}, slices.Repeat([]bson.D{testenv.Deadlock()}, 20)...)...)
		_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(1))
		wantUnavailable(t, err, bucket.AppliedNo)
		if n := len(sent()); n != 9 {
			t.Errorf("%d commands: %v", n, sent())
		}
	})
}

// A start that may have been written is not sent again.
func TestSteppingDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sent := answers(t, testenv.SteppingDown(), testenv.Found(), testenv.SteppingDown())
		_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(1))
		wantUnavailable(t, err, bucket.AppliedMaybe)
		if want := []string{"find", "find", "insert"}; !slices.Equal(sent(), want) {
			t.Errorf("sent %v, want %v", sent(), want)
		}
	})
}
