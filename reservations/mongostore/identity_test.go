package mongostore_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// All processes see one ID of a store; another database, another collection of buckets and an emptied database have
// others.
func TestIdentity(t *testing.T) {
	t.Parallel()
	db, other := database(t), database(t)
	var group sync.WaitGroup
	seen := make([]reservations.Identity, 8)
	for i := range seen {
		group.Go(func() {
			var err error
			if seen[i], err = mongostore.New(db, mongostore.Options{}).Identity(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, one := range seen {
		if one != seen[0] || one.ID == "" || one.Place != "MongoDB, database "+db.Name() {
			t.Fatalf("%+v", seen)
		}
	}
	ids := map[string]bool{seen[0].ID: true}
	for _, store := range []*mongostore.Store{
		mongostore.New(other, mongostore.Options{}), mongostore.New(db, mongostore.Options{Collection: "others"}),
	} {
		one, err := store.Identity(t.Context())
		if err != nil || ids[one.ID] {
			t.Errorf("%+v, %v", one, err)
		}
		ids[one.ID] = true
	}
	if err := db.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if one, err := mongostore.New(db, mongostore.Options{}).Identity(t.Context()); err != nil || ids[one.ID] {
		t.Errorf("emptied: %+v, %v", one, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := mongostore.New(db, mongostore.Options{}).Identity(ended); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("away: %v", err)
	}
}
