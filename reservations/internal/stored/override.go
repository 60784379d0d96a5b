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
//
//	_id     OverrideID
//	period  milliseconds
//	set_at  by the clock of the process that set it
type Override struct {
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
	return Override{
		ID: OverrideID(set.Limit, set.Key, set.Meter), Limit: set.Limit, Key: set.Key, Meter: set.Meter,
		Rate: set.Rate, Period: set.Period.Milliseconds(), Capacity: set.Capacity, SetAt: set.SetAt, By: set.By,
	}, nil
}

// DecodeOverride reads a document. The error says why it is no override. The limits decide whether its numbers are
// possible for a meter.
func DecodeOverride(document bson.Raw) (reservations.Override, error) {
	var o Override
	if err := bson.Unmarshal(document, &o); err != nil {
		return reservations.Override{}, err
	}
	for _, x := range []float64{o.Rate, o.Capacity} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return reservations.Override{}, fmt.Errorf("%v is not a number of tokens", x)
		}
	}
	return reservations.Override{
		Limit: o.Limit, Key: o.Key, Meter: o.Meter, Rate: o.Rate, Capacity: o.Capacity,
		Period: time.Duration(min(max(0, o.Period), int64(bucket.MaxWait/time.Millisecond))) * time.Millisecond,
		SetAt:  o.SetAt.UTC(), By: o.By,
	}, nil
}
