package mongostore

import (
	"maps"
	"math"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// inboxOf is the document of a bucket with one entry whose request has other fields than usual, and other answers.
func inboxOf(tb testing.TB, shape int64, request bson.M, answers any) []byte {
	tb.Helper()
	r := bson.M{"op": "start", "tokens": bson.A{1.0}}
	maps.Copy(r, request)
	text, err := bson.Marshal(bson.M{
		"gen": int64(1), "v": int64(1), "at": int64(1_767_225_600e9), "blocked": int64(0), "ids": bson.A{},
		"forgot": int64(0), "tag": int64(1), "clock": time.Unix(1_767_225_600, 0),
		"meters":  bson.A{bson.M{"n": "m", "s": 5.0, "r": 5.0, "rate": 10.0, "cap": 10.0}},
		"inbox":   bson.A{bson.M{"i": int64(7), "l": shape, "a": int64(1_767_225_600e9), "q": bson.A{r}}},
		"replies": answers,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// Whatever an inbox holds, it costs no other process its bucket: what a swap writes can be read again, and the answer
// to the process's own request is one of a valid bucket.
func FuzzInbox(f *testing.F) {
	limit := hourly()
	shape := fingerprint(bucket.Rules(limit))
	for _, request := range []bson.M{
		nil,
		{"op": "settle"},
		{"op": "sync"},
		{"op": "nonsense"},
		{"op": "block", "for": int64(math.MaxInt64)},
		{"op": "block", "for": int64(math.MinInt64)},
		{"op": "renew", "lease": int64(1)},
		{"tokens": bson.A{math.NaN()}},
		{"tokens": bson.A{math.Inf(1)}},
		{"tokens": bson.A{-1e308}},
		{"tokens": bson.A{}},
		{"tokens": bson.A{1.0, 2.0}},
		{"tokens": nil},
		{"tokens": bson.A{1e308}, "op": "settle"},
		{"tokens": bson.A{math.Inf(-1)}, "op": "release"},
		{"op": "sync", "tokens": bson.A{1.0}, "for": int64(-5), "up": true},
		{"tokens": bson.A{1.0}, "lease": int64(5), "for": int64(math.MaxInt64)},
	} {
		f.Add(inboxOf(f, shape, request, bson.M{}), false)
		f.Add(inboxOf(f, shape, request, bson.M{}), true)
	}
	for _, answers := range []any{
		"x",
		bson.M{"k": bson.A{bson.M{"a": int64(math.MaxInt64), "h": int64(math.MinInt64)}}},
		bson.M{"": bson.A{}},
		bson.M{"a.b": bson.A{bson.M{"a": int64(0)}}},
	} {
		f.Add(inboxOf(f, shape, nil, answers), false)
	}
	now := time.Unix(1_767_225_600, 0).UTC()
	f.Fuzz(func(t *testing.T, text []byte, calls bool) {
		s := &Store{now: func() time.Time { return now }}
		if bson.Raw(text).Validate() != nil {
			return // a server stores BSON alone
		}
		before, err := s.state("hourly", text)
		if err != nil || before.Bucket.Version > math.MaxInt32 {
			return
		}
		limit := limit
		if calls {
			limit.Meters = []reservations.Meter{reservations.InFlight(3)}
			for i := range before.Inbox {
				before.Inbox[i].Limit = fingerprint(bucket.Rules(limit))
			}
		}
		own := startOf(1)
		own[0].Lease, own[0].For = 9, 25*time.Second
		c := before.fold(bucket.Rules(limit), now, own)
		if len(c.outcomes) != 1 || c.outcomes[0].Hold < 0 || c.outcomes[0].Hold > bucket.Hold ||
			c.outcomes[0].Wait() < 0 {
			t.Errorf("own request: %+v", c.outcomes)
		}
		update := stored.Encode(c.update(newDocument(c.after)))
		if err = update.Validate(); err != nil {
			t.Fatalf("the update can't be written: %v", err)
		}
		again, err := decode(update.Lookup("$set").Document())
		if err != nil {
			t.Fatalf("the bucket %+v can't be read again: %v", c.after, err)
		}
		if m := again.Bucket.Meters[0]; m.Started < -2e15 || m.Started > m.Filling.Capacity {
			if started := before.Bucket.Meters[0].Started; started <= m.Filling.Capacity && started >= -1e15 {
				t.Errorf("balance %v of %v after the inbox", m.Started, m.Filling.Capacity)
			}
		}
		for _, l := range again.Bucket.Meters[0].Leased {
			if l.Until.Sub(now) > time.Minute && len(before.Bucket.Meters[0].Leased) == 0 {
				t.Errorf("a lease until %v", l.Until)
			}
		}
	})
}
