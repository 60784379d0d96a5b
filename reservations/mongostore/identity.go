package mongostore

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/documents/mongoerr"
	"github.com/headway-go/headway/reservations"
)

// identities is the collection with one document for each collection of buckets: its name as _id, and its ID.
const identities = "headway_identity"

var _ reservations.Identified = (*Store)(nil)

// Identity implements reservations.Identified. The ID is a random one, which the first process writes into the
// database. A database that was dropped and made again has another ID; a restored copy has the ID of its original.
func (s *Store) Identity(ctx context.Context) (reservations.Identity, error) {
	db := s.buckets.Database()
	kept := db.Collection(identities, settings())
	var document struct {
		ID string `bson:"id"`
	}
	err := mongoerr.Upsert(ctx, func() error {
		return kept.FindOneAndUpdate(ctx, bson.D{to("_id", s.buckets.Name())},
			bson.D{to("$setOnInsert", bson.D{to("id", uuid.NewString())})},
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&document)
	})
	if err == nil && document.ID == "" {
		err = fmt.Errorf("the document %q in %s has no id", s.buckets.Name(), identities)
	}
	if err != nil {
		return reservations.Identity{}, fmt.Errorf("%w: read the identity of database %s: %w",
			reservations.ErrUnavailable, db.Name(), err)
	}
	place := "MongoDB, database " + db.Name()
	if name := s.buckets.Name(); name != DefaultCollection {
		place += ", collection " + name
	}
	return reservations.Identity{ID: document.ID, Place: place}, nil
}
