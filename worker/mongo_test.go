package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/worker"
)

// A task whose bucket has a corrupt document waits, tasks of other buckets run, and it runs after an operator has
// deleted the document.
func TestACorruptDocument(t *testing.T) {
	t.Parallel()
	b := onRedis(t)
	db := testenv.Database(t)
	store := mongostore.New(db, mongostore.Options{})
	if err := store.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	corrupt := bson.M{"_id": "api:bad", "tag": int64(1), "v": int64(1), "at": "yesterday", "meters": "m"}
	buckets := db.Collection(mongostore.DefaultCollection)
	if _, err := buckets.InsertOne(t.Context(), corrupt); err != nil {
		t.Fatal(err)
	}
	var err error
	limits := []reservations.Limit{slow(100)}
	if b.limiter, err = reservations.New(store, limits, reservations.Config{CallTimeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	w := b.worker(worker.Config{})
	worker.Handle(w, func(context.Context, *worker.Job[keyed]) error { return nil })
	bad, good := b.enqueue(keyed{Key: "bad"}).ID, b.enqueue(keyed{Key: "good"}).ID
	b.start(w)
	for d := <-b.deferrals; d.Task.ID != bad || !errors.Is(d.Err, bucket.ErrBucket); {
		d = <-b.deferrals
	}
	if !b.succeed(1)[good] {
		t.Error("the task of the corrupt bucket has run")
	}
	if _, err := buckets.DeleteMany(t.Context(), bson.M{"_id": "api:bad"}); err != nil {
		t.Fatal(err)
	}
	if !b.succeed(1)[bad] {
		t.Error("another task has run")
	}
}
