package stored_test

import (
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// document is a bucket as it is stored, with fields that are changed.
func document(tb testing.TB, meter, bucket bson.M) []byte {
	tb.Helper()
	m := bson.M{"n": "r", "s": 5.0, "r": 5.0, "rate": 10.0, "cap": 10.0}
	maps.Copy(m, meter)
	b := bson.M{
		"gen": int64(1), "v": int64(1), "at": int64(1_767_225_600e9), "blocked": int64(0), "meters": bson.A{m},
		"ids": bson.A{int64(7)}, "forgot": int64(0),
	}
	maps.Copy(b, bucket)
	text, err := bson.Marshal(b)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// negative is a document whose one element has a negative length, so that the element ends where it begins.
const negative = "\x12\x00\x00\x00\x04none\x00\xfa\xff\xff\xff\x00\x00\x00\x00"

// A value that is no BSON is an error: to read it ends.
func TestNegativeLength(t *testing.T) {
	t.Parallel()
	if b, err := stored.DecodeBucket(bson.Raw(negative)); !errors.Is(err, stored.ErrMalformed) {
		t.Errorf("bucket %+v: %v", b, err)
	}
	if o, err := stored.DecodeOverride(bson.Raw(negative)); err == nil {
		t.Errorf("override %v", o)
	}
}

// Whatever is stored as a bucket is refused, or a step from it is the bucket of a document that can be read again.
func FuzzDecode(f *testing.F) {
	const far = int64(math.MaxInt64)
	for _, meter := range []bson.M{
		nil,
		{"s": -1e308},
		{"s": 1e308, "r": 1e308},
		{"s": math.NaN()},
		{"rate": 1e-300},
		{"rate": 1e300, "cap": 1e300},
		{"cap": 5e-324},
		{"period": int64(1)},
		{"period": far, "offset": far},
		{"head": 1e300},
		{"n": ""},
		{"s": "x"},
		{"held": bson.A{bson.M{"u": far, "n": 1e15}}},
		{"fly": true, "leased": bson.A{bson.M{"i": far, "u": far, "n": 1.0}}},
		{"leased": bson.A{bson.M{"i": int64(1), "u": int64(-1), "n": -1.0}}},
	} {
		f.Add(document(f, meter, nil), int64(1_767_225_600e9))
	}
	for _, bucket := range []bson.M{
		{"v": far},
		{"v": int64(0)},
		{"gen": far},
		{"at": far},
		{"at": -far},
		{"blocked": far},
		{"blocked": int64(-5)},
		{"forgot": far},
		{"meters": bson.A{}},
		{"meters": "x"},
		{"ids": "x"},
		{"at": 1e300},
	} {
		f.Add(document(f, nil, bucket), int64(0))
	}
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{reservations.PerSecond("r", 10)}}
	f.Fuzz(func(t *testing.T, text []byte, clock int64) {
		_, _ = stored.DecodeOverride(text)
		b, err := stored.DecodeBucket(text)
		if err != nil || b.Version == math.MaxInt64 {
			return
		}
		now := time.Unix(0, clock)
		for _, op := range []bucket.Op{bucket.OpStart, bucket.OpReserve, bucket.OpSettle} {
			after, o := bucket.Step(b, bucket.Rules(limit), now, bucket.Request{Op: op, Tokens: []float64{1}})
			if o.Hold < 0 || o.Hold > bucket.Hold || o.Wait() < 0 {
				t.Errorf("%s: hold %v, wait %v", op, o.Hold, o.Wait())
			}
			if _, err := stored.DecodeBucket(stored.Encode(after)); err != nil && after.Version > 0 {
				t.Errorf("%s: the bucket %+v can't be read again: %v", op, after, err)
			}
		}
	})
}
