package mongostore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/reservations"
)

// DefaultOverrides is where overrides are kept.
const DefaultOverrides = "headway_overrides"

// setAttempts is how often an override is written where others write the same one.
const setAttempts = 5

// ErrMalformedOverride is matched when the collection holds a document that is no override.
var ErrMalformedOverride = errors.New("mongostore: malformed override")

// Overrides are the rates that were set while the fleet runs, one document for each meter of a limit or of one of its
// keys. Safe for concurrent use, by any number of processes.
type Overrides struct{ documents *mongo.Collection }

// override is the stored form.
//
//	_id     "limit/meter" or "limit:key/meter"
//	period  milliseconds
//	set_at  by the clock of the process that set it
type override struct {
	ID       string    `bson:"_id"`
	Limit    string    `bson:"limit"`
	Key      string    `bson:"key"`
	Meter    string    `bson:"meter"`
	Rate     float64   `bson:"rate"`
	Period   int64     `bson:"period"`
	Capacity float64   `bson:"capacity"`
	SetAt    time.Time `bson:"set_at"`
	By       string    `bson:"by"`
}

// NewOverrides returns the overrides in a collection of db; an empty name means DefaultOverrides. All processes of a
// fleet must name the same. It sends nothing. The client of db stays the caller's to disconnect.
func NewOverrides(db *mongo.Database, collection string) *Overrides {
	if collection == "" {
		collection = DefaultOverrides
	}
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return &Overrides{documents: db.Collection(collection, settings)}
}

// Set writes an override in the place of an earlier one for the same meter and key, if there is one. It does not know
// the limits; the period has to be whole milliseconds (reservations.ErrInvalidLimit). Other errors match
// reservations.ErrUnavailable: it may be set all the same, and setting it again does no harm.
func (o *Overrides) Set(ctx context.Context, set reservations.Override) error {
	if set.Period < time.Millisecond || set.Period%time.Millisecond != 0 {
		fault := &reservations.FieldError{
			Field: set.Meter + ".period", Problem: fmt.Sprintf("%v must be whole milliseconds", set.Period),
		}
		return &reservations.OverrideError{Override: set, Err: &reservations.LimitError{Limit: set.Limit, Err: fault}}
	}
	stored := override{
		ID: overrideID(set.Limit, set.Key, set.Meter), Limit: set.Limit, Key: set.Key, Meter: set.Meter,
		Rate: set.Rate, Period: set.Period.Milliseconds(), Capacity: set.Capacity, SetAt: set.SetAt, By: set.By,
	}
	var err error
	for range setAttempts {
		_, err = o.documents.ReplaceOne(ctx, bson.D{to("_id", stored.ID)}, stored, options.Replace().SetUpsert(true))
		if err == nil || !isConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: set override %v: %w", reservations.ErrUnavailable, set, err)
	}
	return nil
}

// Unset takes an override back, and says whether there was one. Errors as for Set.
func (o *Overrides) Unset(ctx context.Context, limit, key, meter string) (bool, error) {
	result, err := o.documents.DeleteOne(ctx, bson.D{to("_id", overrideID(limit, key, meter))})
	if err != nil {
		which := reservations.Override{Limit: limit, Key: key, Meter: meter}
		return false, fmt.Errorf("%w: unset override %v: %w", reservations.ErrUnavailable, which, err)
	}
	return result.DeletedCount > 0, nil
}

// List reads all overrides, in one call, sorted by limit, key and meter. Documents that can't be read are left out and
// named in the error, which matches ErrMalformedOverride; the list holds all others then. Any other error matches
// reservations.ErrUnavailable.
func (o *Overrides) List(ctx context.Context) ([]reservations.Override, error) {
	var raw []bson.Raw
	sorted := options.Find().SetSort(bson.D{to("limit", 1), to("key", 1), to("meter", 1)})
	found, err := o.documents.Find(ctx, bson.D{}, sorted)
	if err == nil {
		err = found.All(ctx, &raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: list overrides: %w", reservations.ErrUnavailable, err)
	}
	list := make([]reservations.Override, 0, len(raw))
	var faults []error
	for _, document := range raw {
		var stored override
		err := bson.Unmarshal(document, &stored)
		if err == nil {
			err = stored.fault()
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%w %v: %w", ErrMalformedOverride, document.Lookup("_id"), err))
			continue
		}
		list = append(list, reservations.Override{
			Limit: stored.Limit, Key: stored.Key, Meter: stored.Meter, Rate: stored.Rate, Capacity: stored.Capacity,
			Period: time.Duration(min(max(0, stored.Period), int64(reservations.MaxWait/time.Millisecond))) * time.Millisecond,
			SetAt:  stored.SetAt.UTC(), By: stored.By,
		})
	}
	return slices.Clip(list), errors.Join(faults...)
}

// fault says which number is not a number of tokens. The limits decide whether another one is possible for a meter.
func (o override) fault() error {
	for _, x := range []float64{o.Rate, o.Capacity} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%v is not a number of tokens", x)
		}
	}
	return nil
}

// overrideID is never the same for two meters: the names of limits hold no colon, those of meters no slash.
func overrideID(limit, key, meter string) string {
	return reservations.BucketName(limit, key) + "/" + meter
}
