package stored

import (
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Override is the stored override.
type Override struct {
	ID     string                `bson:"_id"` // OverrideID
	Set    reservations.Override `bson:",inline"`
	Period int64                 `bson:"period"` // milliseconds
}

// OverrideID is "limit/meter" or "limit:key/meter": never the same for two meters, as the names of limits hold no
// colon, and the names of meters no slash.
func OverrideID(limit, key, meter string) string {
	return bucket.Name(limit, key) + "/" + meter
}

// EncodeOverride refuses a period that is not whole milliseconds: the error matches reservations.ErrInvalidLimit.
func EncodeOverride(set reservations.Override) (Override, error) {
	if set.Meter != reservations.MeterInFlight && set.Period < time.Millisecond || set.Period%time.Millisecond != 0 {
		return Override{}, fmt.Errorf("override %v: %w: %s.period: %v must be whole milliseconds", set,
			reservations.ErrInvalidLimit, set.Meter, set.Period)
	}
	return Override{ID: OverrideID(set.Limit, set.Key, set.Meter), Set: set, Period: set.Period.Milliseconds()}, nil
}

// DecodeOverride reads a document. The error says why it is no override: also an ID that is not that of its fields,
// because nothing could take it back. The limits decide whether its numbers are
// possible for a meter.
func DecodeOverride(document bson.Raw) (reservations.Override, error) {
	var o Override
	err := document.Validate() // at a negative length, the decoder never ends
	if err == nil {
		err = bson.Unmarshal(document, &o)
	}
	if err != nil {
		return reservations.Override{}, err
	}
	if id := OverrideID(o.Set.Limit, o.Set.Key, o.Set.Meter); id != o.ID {
		return reservations.Override{}, fmt.Errorf("it is stored as %.200q, and its fields say %.200q", o.ID, id)
	}
	for _, x := range []float64{o.Set.Rate, o.Set.Capacity} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return reservations.Override{}, fmt.Errorf("%v is not a number of tokens", x)
		}
	}
	o.Set.Period = time.Duration(min(max(0, o.Period), int64(bucket.MaxWait/time.Millisecond))) * time.Millisecond
	return o.Set, nil
}
