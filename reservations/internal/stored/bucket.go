package stored

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
)

// ErrMalformed is matched when a document is not a bucket.
var ErrMalformed = errors.New("malformed bucket document")

// Bucket is the stored bucket. Moments and durations are nanoseconds, so that no rounding changes a bucket; zero stands
// for the zero time.
type Bucket struct {
	Generation int64   `bson:"gen"`
	Version    int64   `bson:"v"`
	At         int64   `bson:"at"`
	Blocked    int64   `bson:"blocked"`
	Meters     []meter `bson:"meters"`
	Settled    []int64 `bson:"ids"`
	Forgot     int64   `bson:"forgot"`
}

// Fields are the names of all fields of a Bucket.
func Fields() []string { return []string{"gen", "v", "at", "blocked", "meters", "ids", "forgot"} }

// meter is one bucket.Balance.
type meter struct {
	Name     string  `bson:"n"`
	Started  float64 `bson:"s"`
	Reserved float64 `bson:"r"`
	Rate     float64 `bson:"rate"`
	Capacity float64 `bson:"cap"`
	Headroom float64 `bson:"head,omitempty"`
	Least    float64 `bson:"least,omitempty"`
	Most     float64 `bson:"most,omitempty"`
	Ramp     int64   `bson:"ramp,omitempty"`
	Slowed   int64   `bson:"slow,omitempty"`
	Period   int64   `bson:"period,omitempty"`
	Offset   int64   `bson:"offset,omitempty"`
	Held     []held  `bson:"held,omitempty"`
	InFlight bool    `bson:"fly,omitempty"`
	Leased   []lease `bson:"leased,omitempty"`
}

// held is one bucket.Held.
type held struct {
	Until  int64   `bson:"u"`
	Tokens float64 `bson:"n"`
}

// lease is one bucket.Leased.
type lease struct {
	ID     int64   `bson:"i"`
	Until  int64   `bson:"u"`
	Tokens float64 `bson:"n"`
}

// Encode returns the fields of a bucket.
func Encode(b bucket.Bucket) bson.D {
	meters := make([]meter, len(b.Meters))
	for k, m := range b.Meters {
		f := m.Filling
		meters[k] = meter{
			Name: m.Name, Started: m.Started, Reserved: m.Reserved, Rate: f.Rate, Capacity: f.Capacity, Headroom: f.Headroom,
			Period: int64(f.Period), Offset: int64(f.Offset), InFlight: f.InFlight,
			Least: f.Least, Most: f.Most, Ramp: int64(f.Ramp), Slowed: Nanoseconds(m.Slowed),
		}
		for _, h := range m.Held {
			meters[k].Held = append(meters[k].Held, held{Until: h.Until.UnixNano(), Tokens: h.Tokens})
		}
		for _, l := range m.Leased {
			meters[k].Leased = append(meters[k].Leased, lease{ID: l.ID, Until: l.Until.UnixNano(), Tokens: l.Tokens})
		}
	}
	return bson.D{
		to("gen", b.Generation), to("v", b.Version), to("at", b.At.UnixNano()),
		to("blocked", Nanoseconds(b.Blocked)), to("meters", meters), to("ids", append([]int64{}, b.Settled...)),
		to("forgot", Nanoseconds(b.Forgot)),
	}
}

// Decode is the inverse of Encode. The error matches ErrMalformed.
func (d Bucket) Decode() (bucket.Bucket, error) {
	if d.Version <= 0 || len(d.Meters) == 0 {
		return bucket.Bucket{}, fmt.Errorf("%w: the version or all meters are missing", ErrMalformed)
	}
	b := bucket.Bucket{
		At: time.Unix(0, d.At).UTC(), Generation: d.Generation, Version: d.Version,
		Blocked: Moment(d.Blocked), Forgot: Moment(d.Forgot),
		Meters: make([]bucket.Balance, len(d.Meters)),
	}
	if len(d.Settled) > 0 {
		b.Settled = d.Settled
	}
	for k, m := range d.Meters {
		if fault := m.fault(); fault != "" {
			return bucket.Bucket{}, fmt.Errorf("%w: meter %q: %s", ErrMalformed, m.Name, fault)
		}
		b.Meters[k] = bucket.Balance{
			Name: m.Name, Started: m.Started, Reserved: m.Reserved, Slowed: Moment(m.Slowed),
			Filling: bucket.Filling{
				Rate: m.Rate, Capacity: m.Capacity, Headroom: m.Headroom,
				Period: time.Duration(m.Period), Offset: time.Duration(m.Offset), InFlight: m.InFlight,
				Least: m.Least, Most: m.Most, Ramp: time.Duration(m.Ramp),
			},
		}
		for _, h := range m.Held {
			b.Meters[k].Held = append(b.Meters[k].Held, bucket.Held{Until: Moment(h.Until), Tokens: h.Tokens})
		}
		for _, l := range m.Leased {
			b.Meters[k].Leased = append(b.Meters[k].Leased, bucket.Leased{
				ID: l.ID, Until: Moment(l.Until), Tokens: l.Tokens,
			})
		}
	}
	return b, nil
}

// fault says why the meter can't be one of a bucket; empty where it can.
func (m meter) fault() string {
	for _, x := range []float64{m.Started, m.Reserved, m.Rate, m.Capacity, m.Headroom, m.Least, m.Most} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf("%v is not a number of tokens", x)
		}
	}
	switch {
	case m.Name == "":
		return "it has no name"
	case m.Rate <= 0 && !m.InFlight || m.Capacity < 0:
		return fmt.Sprintf("rate %v must be positive, and capacity %v not negative", m.Rate, m.Capacity)
	case m.Most != 0 && !(0 < m.Least && m.Least <= m.Rate && m.Rate <= m.Most) || m.Ramp < 0:
		return fmt.Sprintf("rate %v must be from %v to %v, and ramp %d not negative", m.Rate, m.Least, m.Most, m.Ramp)
	case m.Period < 0:
		return fmt.Sprintf("period %d must not be negative", m.Period)
	}
	ended := int64(0)
	for _, h := range m.Held {
		if !(h.Tokens > 0) || math.IsInf(h.Tokens, 0) || h.Until <= ended {
			return fmt.Sprintf("a hold of %v until %d after one until %d", h.Tokens, h.Until, ended)
		}
		ended = h.Until
	}
	return m.leaseFault()
}

// leaseFault says which lease can't be one of a bucket; empty where all can.
func (m meter) leaseFault() string {
	ended := int64(0)
	for _, l := range m.Leased {
		if !m.InFlight || l.ID == 0 || !(l.Tokens > 0) || math.IsInf(l.Tokens, 0) || l.Until <= 0 || l.Until < ended {
			return fmt.Sprintf("lease %d of %v until %d after one until %d", l.ID, l.Tokens, l.Until, ended)
		}
		ended = l.Until
	}
	return ""
}

// Nanoseconds is t since 1970; zero for the zero time.
func Nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Moment is the inverse of Nanoseconds.
func Moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func to(field string, value any) bson.E { return bson.E{Key: field, Value: value} }
