package stored

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
)

// ErrMalformed is matched when a document is not a bucket.
var ErrMalformed = errors.New("malformed bucket document")

// Fields are the names of all fields of a stored bucket.
func Fields() []string { return []string{"at", "gen", "v", "blocked", "meters", "ids", "forgot"} }

// registry stores moments as nanoseconds since 1970, so that no rounding changes a bucket; zero stands for the zero
// time.
var registry = momentsAsNumbers() //nolint:gochecknoglobals // constant

func momentsAsNumbers() *bson.Registry {
	r := bson.NewRegistry()
	encode := func(_ bson.EncodeContext, w bson.ValueWriter, moment reflect.Value) error {
		return w.WriteInt64(Nanoseconds(moment.Interface().(time.Time)))
	}
	decode := func(c bson.DecodeContext, r bson.ValueReader, moment reflect.Value) error {
		var ns int64
		numbers, err := c.LookupDecoder(reflect.TypeOf(ns))
		if err == nil {
			err = numbers.DecodeValue(c, r, reflect.ValueOf(&ns).Elem())
		}
		moment.Set(reflect.ValueOf(Moment(ns)))
		return err
	}
	r.RegisterTypeEncoder(reflect.TypeFor[time.Time](), bson.ValueEncoderFunc(encode))
	r.RegisterTypeDecoder(reflect.TypeFor[time.Time](), bson.ValueDecoderFunc(decode))
	return r
}

// Encode returns the document of a bucket.
func Encode(b bucket.Bucket) bson.Raw {
	var document bytes.Buffer
	encoder := bson.NewEncoder(bson.NewDocumentWriter(&document))
	encoder.SetRegistry(registry)
	encoder.NilSliceAsEmpty()
	_ = encoder.Encode(b) // names and numbers can all be encoded
	return document.Bytes()
}

// Decode is the inverse of Encode; it ignores other fields. The error matches ErrMalformed.
func Decode(document bson.Raw) (bucket.Bucket, error) {
	var b bucket.Bucket
	value := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
	if err := value.UnmarshalWithContext(&bson.DecodeContext{Registry: registry}, &b); err != nil {
		return bucket.Bucket{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if b.Version <= 0 || len(b.Meters) == 0 {
		return bucket.Bucket{}, fmt.Errorf("%w: the version or all meters are missing", ErrMalformed)
	}
	if len(b.Settled) == 0 {
		b.Settled = nil
	}
	if b.At.IsZero() { // only a bucket that is not stored has no moment
		b.At = time.Unix(0, 0).UTC()
	}
	for _, m := range b.Meters {
		if fault := faultOf(m); fault != "" {
			return bucket.Bucket{}, fmt.Errorf("%w: meter %q: %s", ErrMalformed, m.Name, fault)
		}
	}
	return b, nil
}

// faultOf says why the meter can't be one of a bucket; empty where it can.
func faultOf(m bucket.Balance) string {
	f := m.Filling
	for _, x := range []float64{m.Started, m.Reserved, f.Rate, f.Capacity, f.Headroom, f.Least, f.Most} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf("%v is not a number of tokens", x)
		}
	}
	switch {
	case m.Name == "":
		return "it has no name"
	case f.Rate <= 0 && !f.InFlight || f.Capacity < 0:
		return fmt.Sprintf("rate %v must be positive, and capacity %v not negative", f.Rate, f.Capacity)
	case f.Most != 0 && !(0 < f.Least && f.Least <= f.Rate && f.Rate <= f.Most) || f.Ramp < 0:
		return fmt.Sprintf("rate %v must be from %v to %v, and ramp %d not negative", f.Rate, f.Least, f.Most, f.Ramp)
	case f.Period < 0:
		return fmt.Sprintf("period %d must not be negative", f.Period)
	}
	ended := int64(0)
	for _, h := range m.Held {
		until := Nanoseconds(h.Until)
		if !(h.Tokens > 0) || math.IsInf(h.Tokens, 0) || until <= ended {
			return fmt.Sprintf("a hold of %v until %d after one until %d", h.Tokens, until, ended)
		}
		ended = until
	}
	ended = 1
	for _, l := range m.Leased {
		until := Nanoseconds(l.Until)
		if !f.InFlight || l.ID == 0 || !(l.Tokens > 0) || math.IsInf(l.Tokens, 0) || until < ended {
			return fmt.Sprintf("lease %d of %v until %d after one until %d", l.ID, l.Tokens, until, ended)
		}
		ended = until
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
