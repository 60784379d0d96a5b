// Package stored is the form in which databases keep buckets and overrides: BSON, the same for every store.
package stored

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
)

// ErrMalformed is matched when a document is not a bucket.
var ErrMalformed = errors.New("malformed bucket document")

// Fields are the names of all fields of a stored bucket.
func Fields() []string {
	return []string{"at", "gen", "v", "blocked", "refused", "meters", "ids", "forgot"}
}

// registry stores moments as nanoseconds since 1970, so that no rounding changes a bucket; zero stands for the zero
// time. It reads dates as well.
var registry = momentsAsNumbers() //nolint:gochecknoglobals // constant

func momentsAsNumbers() *bson.Registry {
	r := bson.NewRegistry()
	numbers, _ := r.LookupDecoder(reflect.TypeFor[int64]())
	encode := func(_ bson.EncodeContext, w bson.ValueWriter, moment reflect.Value) error {
		return w.WriteInt64(nanoseconds(moment.Interface().(time.Time)))
	}
	decode := func(c bson.DecodeContext, r bson.ValueReader, moment reflect.Value) error {
		if r.Type() == bson.TypeDateTime {
			ms, err := r.ReadDateTime()
			moment.Set(reflect.ValueOf(time.UnixMilli(ms).UTC()))
			return err
		}
		var ns int64
		err := numbers.DecodeValue(c, r, reflect.ValueOf(&ns).Elem())
		if moment.SetZero(); ns != 0 {
			moment.Set(reflect.ValueOf(time.Unix(0, ns).UTC()))
		}
		return err
	}
	r.RegisterTypeEncoder(reflect.TypeFor[time.Time](), bson.ValueEncoderFunc(encode))
	r.RegisterTypeDecoder(reflect.TypeFor[time.Time](), bson.ValueDecoderFunc(decode))
	return r
}

// Encode returns the document of a bucket, or of a struct with buckets or parts of them. It has to be one that BSON can
// encode.
func Encode(value any) bson.Raw {
	var document bytes.Buffer
	encoder := bson.NewEncoder(bson.NewDocumentWriter(&document))
	encoder.SetRegistry(registry)
	_ = encoder.Encode(value) // names and numbers can all be encoded
	return document.Bytes()
}

// Decode is the inverse of Encode; it ignores other fields. The document has to be BSON, as that of a database is. The
// error matches ErrMalformed. See Check for the buckets of into.
func Decode(document bson.Raw, into any) error {
	value := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document}
	if err := value.UnmarshalWithContext(&bson.DecodeContext{Registry: registry}, into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// DecodeBucket returns the bucket of a document, which need not be BSON at all. The error matches ErrMalformed.
func DecodeBucket(document bson.Raw) (b bucket.Bucket, err error) {
	if err = document.Validate(); err != nil { // at a negative length, the decoder never ends
		return b, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err = Decode(document, &b); err == nil {
		err = Check(&b)
	}
	return b, err
}

// Check says why a decoded bucket can't be one; the error matches ErrMalformed. It makes b what was encoded.
func Check(b *bucket.Bucket) error {
	if b.Version <= 0 || len(b.Meters) == 0 {
		return fmt.Errorf("%w: the version or all meters are missing", ErrMalformed)
	}
	if b.At.IsZero() { // only a bucket that is not stored has no moment
		b.At = time.Unix(0, 0).UTC()
	}
	if r := b.Refused; r != nil && (r.Times < 0 || r.Gap < 0 || slices.ContainsFunc(r.By, negative)) {
		return fmt.Errorf("%w: refusals %+v: nothing may be negative", ErrMalformed, *r)
	}
	for _, m := range b.Meters {
		if fault := faultOf(m); fault != "" {
			return fmt.Errorf("%w: meter %q: %s", ErrMalformed, m.Name, fault)
		}
	}
	return nil
}

func negative(r bucket.Refuser) bool { return r.Stopped < 0 }

// faultOf says why the meter can't be one of a bucket; empty where it can.
func faultOf(m bucket.Balance) string {
	f := m.Filling
	for _, x := range []float64{
		m.Started, m.Reserved, m.Ceiling, m.Climb, m.Lowered, f.Rate, f.Capacity, f.Headroom, f.Least, f.Most,
	} {
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
	for _, p := range m.Peaks {
		if !(p.Room >= 0) || math.IsInf(p.Room, 0) {
			return fmt.Sprintf("a room of %v at a peak must be zero or more", p.Room)
		}
	}
	ended := int64(0)
	for _, h := range m.Held {
		until := nanoseconds(h.Until)
		if !(h.Tokens > 0) || math.IsInf(h.Tokens, 0) || until <= ended {
			return fmt.Sprintf("a hold of %v until %d after one until %d", h.Tokens, until, ended)
		}
		ended = until
	}
	ended = 1
	for _, l := range m.Leased {
		until := nanoseconds(l.Until)
		if !f.InFlight || l.ID == 0 || !(l.Tokens > 0) || math.IsInf(l.Tokens, 0) || until < ended {
			return fmt.Sprintf("lease %d of %v until %d after one until %d", l.ID, l.Tokens, until, ended)
		}
		ended = until
	}
	return ""
}

// nanoseconds is t since 1970; zero for the zero time.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
