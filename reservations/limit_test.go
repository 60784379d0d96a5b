package reservations_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

func TestLimitValidate(t *testing.T) {
	t.Parallel()
	good := reservations.PerMinute("tokens", 600)
	with := func(change func(*reservations.Meter)) reservations.Limit {
		m := good
		change(&m)
		return reservations.Limit{Name: "openai", Meters: []reservations.Meter{m}}
	}
	for _, c := range []struct {
		name  string
		limit reservations.Limit
		want  []string // the fields at fault, in order
	}{
		{"good", reservations.Limit{Name: "open-AI_4.1", Meters: []reservations.Meter{good}}, nil},
		{"good with all fields", reservations.Limit{Name: "x", Settle: reservations.SettleKeep, Meters: []reservations.Meter{
			{Name: "a", Rate: .5, Period: time.Hour, Capacity: 3, MaxReserved: 4}, reservations.PerSecond("b", 1),
		}}, nil},
		{
			"adjust by name",
			reservations.Limit{Name: "x", Settle: reservations.SettleAdjust, Meters: []reservations.Meter{good}},
			nil,
		},
		{"no name", reservations.Limit{Meters: []reservations.Meter{good}}, []string{"name"}},
		{"name with a colon", reservations.Limit{Name: "a:b", Meters: []reservations.Meter{good}}, []string{"name"}},
		{
			"name too long",
			reservations.Limit{Name: strings.Repeat("x", 65), Meters: []reservations.Meter{good}},
			[]string{"name"},
		},
		{"unknown kind", windowOfDay(func(m *reservations.Meter) { m.Kind = "sliding" }), []string{"daily.kind"}},
		{
			"a start that is derived",
			windowOfDay(func(m *reservations.Meter) { m.Start, m.Spread = time.Hour, true }),
			[]string{"daily.start"},
		},
		{
			"a start between milliseconds", windowOfDay(func(m *reservations.Meter) { m.Start = time.Hour + 1 }),
			[]string{"daily.start"},
		},
		{
			"a bucket that starts", windowOfDay(func(m *reservations.Meter) { m.Kind, m.Start = "", time.Hour }),
			[]string{"daily.start"},
		},
		{
			"a bucket that is spread",
			windowOfDay(func(m *reservations.Meter) { m.Kind, m.Spread = reservations.KindBucket, true }),
			[]string{"daily.start"},
		},
		{
			"a window too short", windowOfDay(func(m *reservations.Meter) { m.Period = time.Microsecond }),
			[]string{"daily.period"},
		},
		{"a window of no length", windowOfDay(func(m *reservations.Meter) { m.Period = 0 }), []string{"daily.period"}},
		{
			"unknown settle mode",
			reservations.Limit{Name: "x", Settle: "maybe", Meters: []reservations.Meter{good}},
			[]string{"settle"},
		},
		{
			"max_block negative",
			reservations.Limit{Name: "x", MaxBlock: -1, Meters: []reservations.Meter{good}},
			[]string{"max_block"},
		},
		{
			"max_block too long",
			reservations.Limit{Name: "x", MaxBlock: 25 * time.Hour, Meters: []reservations.Meter{good}},
			[]string{"max_block"},
		},
		{"no meters", reservations.Limit{Name: "x"}, []string{"meters"}},
		{"meter name", with(func(m *reservations.Meter) { m.Name = "to kens" }), []string{"meters"}},
		{"meter twice", reservations.Limit{Name: "x", Meters: []reservations.Meter{good, good}}, []string{"meters"}},
		{"rate zero", with(func(m *reservations.Meter) { m.Rate = 0 }), []string{"tokens.rate"}},
		{"rate negative", with(func(m *reservations.Meter) { m.Rate = -1 }), []string{"tokens.rate"}},
		{"rate not a number", with(func(m *reservations.Meter) { m.Rate = math.NaN() }), []string{"tokens.rate"}},
		{
			"rate that rounds to zero", with(func(m *reservations.Meter) { m.Rate = math.SmallestNonzeroFloat64 }),
			[]string{"tokens.rate"},
		},
		{"rate infinite", with(func(m *reservations.Meter) { m.Rate = math.Inf(1) }), []string{"tokens.rate"}},
		{"period zero", with(func(m *reservations.Meter) { m.Period = 0 }), []string{"tokens.period"}},
		{"period negative", with(func(m *reservations.Meter) { m.Period = -time.Second }), []string{"tokens.period"}},
		{"capacity negative", with(func(m *reservations.Meter) { m.Capacity = -1 }), []string{"tokens.capacity"}},
		{
			"capacity not a number", with(func(m *reservations.Meter) { m.Capacity = math.NaN() }),
			[]string{"tokens.capacity"},
		},
		{
			"max_reserved negative", with(func(m *reservations.Meter) { m.MaxReserved = -1 }),
			[]string{"tokens.max_reserved"},
		},
		{
			"max_reserved infinite", with(func(m *reservations.Meter) { m.MaxReserved = math.Inf(1) }),
			[]string{"tokens.max_reserved"},
		},
		{
			"max_reserved not a number", with(func(m *reservations.Meter) { m.MaxReserved = math.NaN() }),
			[]string{"tokens.max_reserved"},
		},
		{
			"all at once",
			reservations.Limit{Settle: "?", Meters: []reservations.Meter{{Capacity: -1, MaxReserved: -1}}},
			[]string{"name", "settle", "meters", ".rate", ".period", ".capacity", ".max_reserved"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.limit.Validate()
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, reservations.ErrInvalidLimit) || errors.Is(err, reservations.ErrUnknownLimit) {
				t.Errorf("%v does not match ErrInvalidLimit alone", err)
			}
			var f *reservations.FieldError
			if !errors.As(err, &f) || f.Limit != c.limit.Name || !strings.Contains(err.Error(), `"`+c.limit.Name+`"`) {
				t.Errorf("%v does not name limit %q", err, c.limit.Name)
			}
			if diff := cmp.Diff(c.want, faultyFields(err)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// faultyFields are the fields of all FieldErrors in err; each must be in its text.
func faultyFields(err error) (fields []string) {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case *reservations.FieldError:
		return []string{e.Field}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			fields = append(fields, faultyFields(inner)...)
		}
	case interface{ Unwrap() error }:
		fields = faultyFields(e.Unwrap())
	}
	for _, f := range fields {
		if !strings.Contains(err.Error(), f+": ") {
			return []string{"field " + f + " is not in the text " + err.Error()}
		}
	}
	return fields
}

func TestMeterDefaults(t *testing.T) {
	t.Parallel()
	m := reservations.PerMinute("tokens", 600)
	if m.Rules().RatePerSecond() != 10 || m.Cap() != 600 || m.Rules().Largest() != 600+10*bucket.MaxWait.Seconds() {
		t.Errorf("600 a minute: %v/s, capacity %v, largest %v", m.Rules().RatePerSecond(), m.Cap(), m.Rules().Largest())
	}
	m = reservations.PerSecond("tokens", 8)
	m.Capacity, m.MaxReserved = 3, 100
	if m.Rules().RatePerSecond() != 8 || m.Cap() != 3 || m.Rules().Largest() != 103 {
		t.Errorf("8 a second: %v/s, capacity %v, largest %v", m.Rules().RatePerSecond(), m.Cap(), m.Rules().Largest())
	}
	if m.MaxReserved = reservations.None; m.Rules().Largest() != 3 {
		t.Errorf("no max_reserved: largest %v", m.Rules().Largest())
	}
}

func TestChargeValidate(t *testing.T) {
	t.Parallel()
	requests, tokens := reservations.PerMinute("requests", 60), reservations.PerMinute("tokens", 1000)
	tokens.MaxReserved = 500
	l := reservations.Limit{Name: "openai", Meters: []reservations.Meter{requests, tokens}}
	for _, c := range []struct {
		name   string
		tokens reservations.Tokens
		want   error
		meter  string
	}{
		{"nothing", nil, nil, ""},
		{"one meter", reservations.Tokens{"requests": 1}, nil, ""},
		{"the largest", reservations.Tokens{"requests": 1, "tokens": 1500}, nil, ""},
		{"too large", reservations.Tokens{"requests": 1, "tokens": 1500.5}, reservations.ErrChargeTooLarge, "tokens"},
		{"negative", reservations.Tokens{"tokens": -1}, reservations.ErrInvalidCharge, "tokens"},
		{"not a number", reservations.Tokens{"tokens": math.NaN()}, reservations.ErrInvalidCharge, "tokens"},
		{"infinite", reservations.Tokens{"requests": math.Inf(1)}, reservations.ErrInvalidCharge, "requests"},
		{"unknown meter", reservations.Tokens{"images": 1}, reservations.ErrUnknownMeter, "images"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			charge := reservations.Charge{Limit: "openai", Key: "gpt", Tokens: c.tokens}
			err := charge.ValidateIn(l)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var e *reservations.ChargeError
			if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Meter != c.meter || e.Charge.Key != "gpt" ||
				!reservations.IsPermanent(err) {
				t.Errorf("%#v, want a permanent %v of meter %s", err, c.want, c.meter)
			}
			if !strings.Contains(err.Error(), c.meter) || !strings.Contains(err.Error(), "openai:gpt") {
				t.Errorf("%q does not name meter and bucket", err)
			}
		})
	}
}

func TestBucketName(t *testing.T) {
	t.Parallel()
	if got := (reservations.Charge{Limit: "openai"}).Bucket().String(); got != "openai" {
		t.Errorf("shared bucket is %q", got)
	}
	if got := (reservations.Charge{Limit: "openai", Key: "a:b"}).Bucket().String(); got != "openai:a:b" {
		t.Errorf("bucket of a key is %q", got)
	}
	for _, b := range []reservations.BucketName{
		{Limit: "a"}, {Limit: "a", Key: "k#2:z"}, {Limit: "a", Key: "k", Shard: 12}, {Limit: "a", Shard: 1},
	} {
		if got, err := reservations.ParseBucket(b.String()); err != nil || got != b {
			t.Errorf("%q is parsed as %#v", b, got)
		}
	}
	if got := reservations.Unused(); got == nil || len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestLimitValidatesModesAndMaxWait(t *testing.T) {
	t.Parallel()
	l := reservations.Limit{
		Name: "api", MaxWait: -1, Settle: "?",
		Meters: []reservations.Meter{reservations.PerMinute("a", 1)},
	}
	l.Meters[0].Settle = "sometimes"
	if diff := cmp.Diff([]string{"settle", "max_wait", "a.settle"}, faultyFields(l.Validate())); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	l.MaxWait, l.Settle, l.Meters[0].Settle = time.Nanosecond, reservations.SettleKeep, reservations.SettleAdjust
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
}

func TestHeadroomFaults(t *testing.T) {
	t.Parallel()
	urgentLimit := func() reservations.Limit {
		l := withHeadroom(ten(inf), 4)
		l.OrdinaryShare = .5
		return l
	}
	daily := reservations.PerDay("daily", 5)
	for name, c := range map[string]struct {
		change func(l *reservations.Limit)
		want   string
	}{
		"fine": {func(*reservations.Limit) {}, ""},
		"negative": {
			func(l *reservations.Limit) { l.Meters[0].Headroom = -1 }, "tokens.headroom: -1 must not be negative",
		},
		"not a number": {func(l *reservations.Limit) { l.Meters[0].Headroom = math.NaN() }, "tokens.headroom"},
		"the capacity": {func(l *reservations.Limit) { l.Meters[0].Headroom = 10 }, "less than the capacity, 10"},
		"share one": {
			func(l *reservations.Limit) { l.OrdinaryShare = 1 },
			"ordinary_share: 1 must be between 0 and 1",
		},
		"share no number": {func(l *reservations.Limit) { l.OrdinaryShare = math.NaN() }, "ordinary_share"},
		"on a window": {func(l *reservations.Limit) {
			m := daily
			m.Headroom = 1
			l.Meters = append(l.Meters, m)
		}, "daily.headroom: a fixed window"},
		"beside a window":   {func(l *reservations.Limit) { l.Meters = append(l.Meters, daily) }, ""},
		"no limit of tasks": {func(l *reservations.Limit) { l.Meters[0].Headroom, l.OrdinaryShare = 0, .3 }, ""},
	} {
		l := urgentLimit()
		c.change(&l)
		if err := l.Validate(); c.want == "" && err != nil || c.want != "" && (err == nil ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLimitTooSmallToCountWith(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e-300, 9e-16, math.NaN(), 1e16} {
		for _, m := range []reservations.Meter{
			{Name: "r", Rate: rate, Period: time.Minute}, {Name: "r", Rate: 1, Period: time.Minute, Capacity: rate},
		} {
			if err := (reservations.Limit{Name: "x", Meters: []reservations.Meter{m}}).Validate(); err == nil {
				t.Errorf("%+v is valid", m)
			}
		}
	}
}

// The cost of a task is what the scarcest meter needs.
func TestLimitSeconds(t *testing.T) {
	t.Parallel()
	rules := bucket.Rules(openai())
	if got := rules.Seconds(rules.Vector(reservations.Tokens{"requests": 1, "tokens": 500})); math.Abs(got-30) > 1e-9 {
		t.Errorf("%v s", got)
	}
}
