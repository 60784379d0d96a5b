package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// ErrMalformedOverride is matched when the hash holds a value that is no override.
var ErrMalformedOverride = errors.New("redisstore: malformed override")

// SetOverride writes an override in the place of an earlier one for the same meter and key, if there is one. It does
// not know the limits; the period has to be whole milliseconds (reservations.ErrInvalidLimit). Other errors match
// reservations.ErrUnavailable: it may be set all the same, and setting it again does no harm.
func (s *Store) SetOverride(ctx context.Context, set reservations.Override) error {
	override, err := stored.EncodeOverride(set)
	if err != nil {
		return err
	}
	document, err := bson.Marshal(override)
	if err == nil {
		err = s.client.HSet(ctx, keyOverrides, override.ID, document).Err()
	}
	if err != nil {
		return fmt.Errorf("%w: set override %v: %w", reservations.ErrUnavailable, set, explained(err))
	}
	return nil
}

// UnsetOverride takes an override back, and says whether there was one. Errors as for SetOverride.
func (s *Store) UnsetOverride(ctx context.Context, limit, key, meter string) (bool, error) {
	n, err := s.client.HDel(ctx, keyOverrides, stored.OverrideID(limit, key, meter)).Result()
	if err != nil {
		which := reservations.Override{Limit: limit, Key: key, Meter: meter}
		return false, fmt.Errorf("%w: unset override %v: %w", reservations.ErrUnavailable, which, err)
	}
	return n > 0, nil
}

// Overrides reads all overrides, in one call, sorted by limit, key and meter. Values that can't be read are left out
// and named in the error, which matches ErrMalformedOverride; the list holds all others then. Any other error matches
// reservations.ErrUnavailable. The method fits worker.Config.Overrides.
func (s *Store) Overrides(ctx context.Context) ([]reservations.Override, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	all, err := s.client.HGetAll(ctx, keyOverrides).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: list overrides: %w", reservations.ErrUnavailable, err)
	}
	list := make([]reservations.Override, 0, len(all))
	var faults []error
	for id, document := range all {
		override, err := stored.DecodeOverride(bson.Raw(document))
		if own := stored.OverrideID(override.Limit, override.Key, override.Meter); err == nil && own != id {
			err = fmt.Errorf("its fields say %.200q", own)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%w %q: %w", ErrMalformedOverride, id, err))
			continue
		}
		list = append(list, override)
	}
	slices.SortFunc(list, func(a, b reservations.Override) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Meter, b.Meter))
	})
	return slices.Clip(list), errors.Join(faults...)
}
