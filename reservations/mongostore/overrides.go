package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/documents/mongoerr"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// ErrMalformedOverride is matched when the collection holds a document that is no override.
var ErrMalformedOverride = errors.New("mongostore: malformed override")

// SetOverride writes an override in the place of an earlier one for the same meter and key, if there is one. It does
// not know the limits; the period has to be whole milliseconds (reservations.ErrInvalidLimit). Other errors match
// reservations.ErrUnavailable: it may be set all the same, and setting it again does no harm.
func (s *Store) SetOverride(ctx context.Context, set reservations.Override) error {
	override, err := stored.EncodeOverride(set)
	if err != nil {
		return err
	}
	err = mongoerr.Upsert(ctx, func() (err error) {
		_, err = s.overrides.ReplaceOne(ctx, bson.D{to("_id", override.ID)}, override, options.Replace().SetUpsert(true))
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: set override %v: %w", reservations.ErrUnavailable, set, err)
	}
	return nil
}

// UnsetOverride takes an override back, and says whether there was one. Errors as for SetOverride.
func (s *Store) UnsetOverride(ctx context.Context, limit, key, meter string) (bool, error) {
	var result *mongo.DeleteResult
	err := mongoerr.UnlessApplied(ctx, func() (err error) {
		result, err = s.overrides.DeleteOne(ctx, bson.D{to("_id", stored.OverrideID(limit, key, meter))})
		return err
	})
	if err != nil {
		which := reservations.Override{Limit: limit, Key: key, Meter: meter}
		return false, fmt.Errorf("%w: unset override %v: %w", reservations.ErrUnavailable, which, err)
	}
	return result.DeletedCount > 0, nil
}

// Overrides reads all overrides, in one call, sorted by limit, key and meter. Documents that can't be read are left out
// and named in the error, which matches ErrMalformedOverride; the list holds all others then. Any other error matches
// reservations.ErrUnavailable. The method fits worker.Config.Overrides.
func (s *Store) Overrides(ctx context.Context) ([]reservations.Override, error) {
	var raw []bson.Raw
	sorted := options.Find().SetSort(bson.D{to("limit", 1), to("key", 1), to("meter", 1)})
	err := mongoerr.Repeatedly(ctx, func() error {
		found, err := s.overrides.Find(ctx, bson.D{}, sorted)
		if err == nil {
			err = found.All(ctx, &raw)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: list overrides: %w", reservations.ErrUnavailable, err)
	}
	list := make([]reservations.Override, 0, len(raw))
	var faults []error
	for _, document := range raw {
		override, err := stored.DecodeOverride(document)
		if err != nil {
			faults = append(faults, fmt.Errorf("%w %v: %w", ErrMalformedOverride, document.Lookup("_id"), err))
			continue
		}
		list = append(list, override)
	}
	return slices.Clip(list), errors.Join(faults...)
}
