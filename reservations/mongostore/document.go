package mongostore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

const (
	fieldExpires = "expires"
	fieldTag     = "tag"
	fieldClock   = "clock"
	fieldInbox   = "inbox"
	fieldAnswers = "answers"
	// keepFull is how long a full bucket is kept.
	keepFull = time.Minute
)

// errMalformed is matched when a document is not a bucket of this package.
var errMalformed = errors.New("malformed bucket document")

// document is the stored bucket. An update leaves other fields as they are, so that a later version may add some.
// Moments and durations are nanoseconds, so that no rounding changes a bucket; zero stands for the zero time.
type document struct {
	Tag        int64            `bson:"tag"` // random, another one after each swap: a swap looks for it
	Generation int64            `bson:"gen"`
	Version    int64            `bson:"v"`
	At         int64            `bson:"at"`
	Blocked    int64            `bson:"blocked"`
	Meters     []meter          `bson:"meters"`
	Settled    []int64          `bson:"ids"`
	Forgot     int64            `bson:"forgot"`
	Clock      time.Time        `bson:"clock"`   // the server's clock, in answers
	Inbox      []entry          `bson:"inbox"`   // see inbox.go
	Answers    map[string]reply `bson:"answers"` // by the ID of the entry
	// expires is the date from which the TTL index deletes the document.
}

// meter is one reservations.Balance.
type meter struct {
	Name     string  `bson:"n"`
	Started  float64 `bson:"s"`
	Reserved float64 `bson:"r"`
	Rate     float64 `bson:"rate"`
	Capacity float64 `bson:"cap"`
	Headroom float64 `bson:"head,omitempty"`
	Period   int64   `bson:"period,omitempty"`
	Offset   int64   `bson:"offset,omitempty"`
	Held     []held  `bson:"held,omitempty"`
	InFlight bool    `bson:"fly,omitempty"`
	Leased   []lease `bson:"leased,omitempty"`
}

// held is one reservations.Held.
type held struct {
	Until  int64   `bson:"u"`
	Tokens float64 `bson:"n"`
}

// lease is one reservations.Leased.
type lease struct {
	ID     int64   `bson:"i"`
	Until  int64   `bson:"u"`
	Tokens float64 `bson:"n"`
}

// encode returns the fields of a bucket.
func encode(b reservations.Bucket, tag int64) bson.D {
	meters := make([]meter, len(b.Meters))
	for k, m := range b.Meters {
		f := m.Filling
		meters[k] = meter{
			Name: m.Name, Started: m.Started, Reserved: m.Reserved, Rate: f.Rate, Capacity: f.Capacity, Headroom: f.Headroom,
			Period: int64(f.Period), Offset: int64(f.Offset), InFlight: f.InFlight,
		}
		for _, h := range m.Held {
			meters[k].Held = append(meters[k].Held, held{Until: h.Until.UnixNano(), Tokens: h.Tokens})
		}
		for _, l := range m.Leased {
			meters[k].Leased = append(meters[k].Leased, lease{ID: l.ID, Until: l.Until.UnixNano(), Tokens: l.Tokens})
		}
	}
	return bson.D{
		to(fieldTag, tag), to("gen", b.Generation), to("v", b.Version), to("at", b.At.UnixNano()),
		to("blocked", nanoseconds(b.Blocked)), to("meters", meters), to("ids", append([]int64{}, b.Settled...)),
		to("forgot", nanoseconds(b.Forgot)), to(fieldExpires, b.FullAt().Add(keepFull)),
	}
}

// decode reads a whole document. The error matches errMalformed.
func decode(raw bson.Raw) (reservations.Bucket, document, error) {
	var d document
	if err := bson.Unmarshal(raw, &d); err != nil {
		return reservations.Bucket{}, d, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if d.Tag == 0 || d.Version <= 0 || len(d.Meters) == 0 {
		return reservations.Bucket{}, d, fmt.Errorf("%w: the tag, the version or all meters are missing", errMalformed)
	}
	b := reservations.Bucket{
		At: time.Unix(0, d.At).UTC(), Generation: d.Generation, Version: d.Version,
		Blocked: moment(d.Blocked), Forgot: moment(d.Forgot),
		Meters: make([]reservations.Balance, len(d.Meters)),
	}
	if len(d.Settled) > 0 {
		b.Settled = d.Settled
	}
	for k, m := range d.Meters {
		if fault := m.fault(); fault != "" {
			return reservations.Bucket{}, d, fmt.Errorf("%w: meter %q: %s", errMalformed, m.Name, fault)
		}
		b.Meters[k] = reservations.Balance{
			Name: m.Name, Started: m.Started, Reserved: m.Reserved,
			Filling: reservations.Filling{
				Rate: m.Rate, Capacity: m.Capacity, Headroom: m.Headroom,
				Period: time.Duration(m.Period), Offset: time.Duration(m.Offset), InFlight: m.InFlight,
			},
		}
		for _, h := range m.Held {
			b.Meters[k].Held = append(b.Meters[k].Held, reservations.Held{Until: moment(h.Until), Tokens: h.Tokens})
		}
		for _, l := range m.Leased {
			b.Meters[k].Leased = append(b.Meters[k].Leased, reservations.Leased{
				ID: l.ID, Until: moment(l.Until), Tokens: l.Tokens,
			})
		}
	}
	return b, d, nil
}

// fault says why the meter can't be one of a bucket; empty where it can.
func (m meter) fault() string {
	for _, x := range []float64{m.Started, m.Reserved, m.Rate, m.Capacity, m.Headroom} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf("%v is not a number of tokens", x)
		}
	}
	switch {
	case m.Name == "":
		return "it has no name"
	case m.Rate <= 0 && !m.InFlight || m.Capacity <= 0:
		return fmt.Sprintf("rate %v and capacity %v must be positive", m.Rate, m.Capacity)
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

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func moment(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns).UTC()
}

func to(field string, value any) bson.E { return bson.E{Key: field, Value: value} }
