package mongostore

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

func raw(tb testing.TB, d bson.D) bson.Raw {
	tb.Helper()
	r, err := bson.Marshal(d)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// document is a stored bucket; integers stand where a server may have made them of doubles.
func document(change ...bson.E) bson.D {
	d := bson.D{
		to("_id", "api"), to("at", bson.DateTime(1000)), to("gen", int64(900)), to("v", 7.), to("shift", int32(-2)), to("carry", 0.25), to("blocked", int32(9)),
		to("meters", bson.A{"m"}), to("led", bson.A{bson.A{5., int32(4), int64(3), 2.5, -1.}}),
		to("out", bson.A{bson.D{to("o", "started"), to("w", 0.25), to("s", 0)}, bson.D{to("o", "ticket"), to("w", int64(3)), to("s", -2.)}}),
	}
	for _, c := range change {
		for i := range d {
			if d[i].Key == c.Key {
				d[i] = c
			}
		}
	}
	return d
}

func TestDecodeOutcomes(t *testing.T) {
	t.Parallel()
	got, err := decodeOutcomes(raw(t, document()), 2)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1000)
	want := []reservations.Outcome{
		{State: reservations.StateStarted, Hold: 250 * time.Millisecond, At: at, Speed: 1, Generation: 900, Version: 6},
		{State: reservations.StateTicket, Due: at.Add(time.Second), At: at, Shift: -2 * time.Second, Speed: 1, Generation: 900, Version: 7},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("outcome %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestDecodeMalformed(t *testing.T) {
	t.Parallel()
	answer := func(o, w, s any) bson.E { return to("out", bson.A{bson.D{to("o", o), to("w", w), to("s", s)}}) }
	for name, d := range map[string]bson.D{
		"no time":          document(to("at", nil), answer("started", 0., 0.)),
		"no answers":       document(to("out", nil)),
		"too many answers": document(),
		"not a document":   document(to("out", bson.A{3})),
		"unknown state":    document(answer("perhaps", 0., 0.)),
		"state new":        document(answer("new", 0., 0.)),
		"no wait":          document(answer("late", nil, 0.)),
		"refused, no wait": document(answer("refused", nil, 0.)),
		"not a number":     document(answer("late", math.NaN(), 0.)),
		"infinite shift":   document(answer("late", 0., math.Inf(1))),
	} {
		if o, err := decodeOutcomes(raw(t, d), 1); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	if _, err := decodeOutcomes(bson.Raw{1, 2}, 0); !errors.Is(err, errMalformed) {
		t.Errorf("not BSON: %v", err)
	}
}

func TestDecodeBucket(t *testing.T) {
	t.Parallel()
	got, err := decodeBucket(raw(t, document()))
	if err != nil {
		t.Fatal(err)
	}
	if got.Shift != -2 || got.Carry != 0.25 || got.Blocked != 9 || got.Generation != 900 || got.Version != 7 || len(got.Meters) != 1 ||
		got.Meters[0] != (reservations.MeterState{Name: "m", Ledgers: [5]float64{5, 4, 3, 2.5, -1}}) {
		t.Errorf("got %+v", got)
	}
	for name, d := range map[string]bson.D{
		"no time":         document(to("at", 3)),
		"no ledgers":      document(to("led", nil)),
		"four ledgers":    document(to("led", bson.A{bson.A{1, 2, 3, 4}})),
		"ledger of text":  document(to("led", bson.A{bson.A{1, 2, 3, 4, "5"}})),
		"number as meter": document(to("meters", bson.A{3})),
	} {
		if b, err := decodeBucket(raw(t, d)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	if _, err := decodeBucket(bson.Raw("x")); !errors.Is(err, errMalformed) {
		t.Errorf("not BSON: %v", err)
	}
	if b, err := decodeBucket(raw(t, bson.D{to("at", bson.DateTime(1))})); err != nil || len(b.Meters) != 0 || b.Version != 0 {
		t.Errorf("what is missing is zero: %+v, %v", b, err)
	}
}

// Whatever a document holds, decoding neither panics nor brings a start that is not there, nor numbers that poison the arithmetic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(raw(f, document())), 2)
	f.Add([]byte(raw(f, document(to("led", bson.A{1})))), 1)
	f.Add([]byte(raw(f, document(to("out", bson.A{bson.D{to("o", "late")}})))), 1)
	f.Add([]byte{5, 0, 0, 0, 0}, 0)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		if n < 0 || n > 100 {
			return
		}
		outcomes, err := decodeOutcomes(data, n)
		if err != nil && (!errors.Is(err, errMalformed) || outcomes != nil) {
			t.Errorf("%v beside %+v", err, outcomes)
		}
		for _, o := range outcomes {
			if o.State == reservations.StateNew || o.State == "" || o.Shift.Abs() > reservations.MaxWait || o.Hold.Abs() > reservations.MaxWait {
				t.Errorf("decoded %+v", o)
			}
		}
		b, err := decodeBucket(data)
		if err != nil && !errors.Is(err, errMalformed) {
			t.Error(err)
		}
		for _, m := range b.Meters {
			for _, x := range m.Ledgers {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("decoded %+v", b)
				}
			}
		}
	})
}

// Every call sends the pipeline: its size is most of what a call costs.
func TestPipelineSize(t *testing.T) {
	t.Parallel()
	minutes := []reservations.Meter{reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000), reservations.PerSecond("images", 1)}
	days := []reservations.Meter{minutes[0], minutes[1], reservations.PerDay("daily", 10_000)}
	headroom := slices.Clone(minutes)
	headroom[0].Headroom = 20
	begin := reservations.Request{Op: reservations.OpBegin, Tokens: []float64{1, 900, 1}}
	settle := reservations.Request{Op: reservations.OpSettle, Tokens: []float64{0, 300, 0}, ID: 7}
	block := reservations.Request{Op: reservations.OpBlock, Tokens: []float64{0, 0, 0}, For: time.Minute}
	sync := reservations.Request{Op: reservations.OpSync, Tokens: []float64{1, 900, 1}}
	release := reservations.Request{Op: reservations.OpRelease, Tokens: []float64{1, 900, 1}, State: reservations.StateLate}
	urgent := begin
	urgent.Urgent = true
	for _, c := range []struct {
		name     string
		meters   []reservations.Meter
		requests []reservations.Request
		changed  bool
		most     int
	}{
		{"begin", minutes, []reservations.Request{begin}, false, 11_600},
		{"begin, windows", days, []reservations.Request{begin}, false, 18_200},
		{"settle", minutes, []reservations.Request{settle}, false, 9_300},
		{"settle, windows", days, []reservations.Request{settle}, false, 11_600},
		{"begin and settle", minutes, []reservations.Request{begin, settle}, false, 15_400},
		{"urgent, without headroom", minutes, []reservations.Request{urgent}, false, 11_600},
		{"begin, headroom", headroom, []reservations.Request{begin}, false, 15_000},
		{"urgent", headroom, []reservations.Request{urgent}, false, 19_000},
		{"all, headroom", headroom, []reservations.Request{urgent, settle, block, sync, release}, false, 28_000},
		{"all, headroom, changed", headroom, []reservations.Request{urgent, settle, block, sync, release}, true, 43_000}, // sent once after each change
		{"all", days, []reservations.Request{begin, settle, block, sync, release}, false, 25_600},
		{"all, changed", days, []reservations.Request{begin, settle, block, sync, release}, true, 41_000},
	} {
		limit := reservations.Limit{Name: "openai", Meters: c.meters}
		v := variantOf(limit, c.requests)
		v.changed = c.changed
		p := raw(t, bson.D{to("p", pipeline(new(programs).of(v), limit, c.requests, "$$NOW"))})
		deep := depth(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: p})
		t.Logf("%s: %d bytes, nested %d deep", c.name, len(p), deep)
		if len(p) > c.most {
			t.Errorf("%s: the pipeline for 3 meters has %d bytes", c.name, len(p))
		}
		if deep > 150 {
			t.Errorf("%s: the pipeline is nested %d deep; servers refuse more than 180", c.name, deep)
		}
	}
}

func depth(v bson.RawValue) int {
	var inner []bson.RawValue
	if d, ok := v.DocumentOK(); ok {
		inner, _ = d.Values()
	} else if a, ok := v.ArrayOK(); ok {
		inner, _ = a.Values()
	} else {
		return 0
	}
	deepest := 0
	for _, i := range inner {
		deepest = max(deepest, depth(i))
	}
	return 1 + deepest
}
