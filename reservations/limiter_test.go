package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// openai is 60 requests and 1000 tokens a minute, with 500 tokens that may be promised ahead.
func openai() reservations.Limit {
	requests, tokens := reservations.PerMinute("requests", 60), reservations.PerMinute("tokens", 1000)
	tokens.MaxReserved = 500
	return reservations.Limit{Name: "openai", Meters: []reservations.Meter{requests, tokens}}
}

// steady is 10 tokens a second with a capacity of 10 and an unlimited plan.
func steady() reservations.Limit {
	return reservations.Limit{Name: "steady", Meters: []reservations.Meter{reservations.PerSecond("tokens", 10)}}
}

type limiterBundle struct {
	*reservations.Limiter

	store *faultyStore
	mem   *memstore.Store
	now   time.Time // of the store; it stands still
}

func setupLimiter(t *testing.T, limits ...reservations.Limit) *limiterBundle {
	t.Helper()
	b := &limiterBundle{now: clock(1000)}
	b.mem = memstore.New(func() time.Time { return b.now })
	b.store = &faultyStore{Store: b.mem}
	var err error
	if b.Limiter, err = reservations.New(b.store, limits, reservations.Config{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// use is what the limit itself still admits, by meter, as of the last request.
func (b *limiterBundle) use(limit, key string) map[string]float64 {
	bucket, _, _ := b.mem.Bucket(context.Background(), limit, key)
	use := map[string]float64{}
	for _, m := range bucket.Meters {
		use[m.Name] = m.Ledgers[reservations.LedgerUse]
	}
	return use
}

func chargeOf(limit string, tokens float64) reservations.Charge {
	return reservations.Charge{Limit: limit, Tokens: reservations.Tokens{"tokens": tokens}}
}

func TestNewReportsEveryFault(t *testing.T) {
	t.Parallel()
	bad := reservations.Limit{Name: "bad", Meters: []reservations.Meter{{Name: "tokens", Rate: -1, Period: time.Second}}}
	_, err := reservations.New(memstore.New(nil), []reservations.Limit{bad, openai(), openai(), {Name: "none"}}, reservations.Config{})
	if !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Fatalf("%v is no ErrInvalidLimit", err)
	}
	for _, want := range []string{`limit "bad": tokens.rate: -1`, `limit "openai": name: is there twice`, `limit "none": meters: needs at least one`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestLimiterNames(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady(), openai())
	names := l.Names()
	if diff := cmp.Diff([]string{"openai", "steady"}, names); diff != "" {
		t.Error(diff)
	}
	names[0] = "changed"
	if l.Names()[0] != "openai" {
		t.Error("the names are not a copy")
	}
	got, err := l.Limit("steady")
	if diff := cmp.Diff(steady(), got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// A charge that can never be served is refused by every call before the store is asked, with an error that says what is wrong.
func TestLimiterRefusesBadCharges(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		charge reservations.Charge
		want   error
		text   []string
	}{
		{"unknown limit", chargeOf("opanai", 1), reservations.ErrUnknownLimit, []string{`"opanai"`, `"openai"`, `"steady"`}},
		{"unknown meter", reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"images": 1}}, reservations.ErrUnknownMeter, []string{"images", "openai"}},
		{"negative", reservations.Charge{Limit: "openai", Key: "k", Tokens: reservations.Tokens{"requests": -1}}, reservations.ErrInvalidCharge, []string{"requests", "openai:k", "-1"}},
		{"too large", chargeOf("openai", 1501), reservations.ErrChargeTooLarge, []string{"tokens", "openai", "1501", "1000", "500"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, steady(), openai())
			ctx := t.Context()
			for call, ask := range map[string]func() error{
				"Validate": func() error { return l.Validate(c.charge) },
				"Begin":    func() error { _, err := l.Begin(ctx, c.charge, reservations.Place{}); return err },
				"Reserve":  func() error { _, err := l.Reserve(ctx, c.charge); return err },
				"ReserveMany": func() error {
					good := chargeOf(c.charge.Limit, 1)
					good.Key = c.charge.Key
					_, err := l.ReserveMany(ctx, []reservations.Charge{good, c.charge})
					return err
				},
				"Check":     func() error { _, err := l.Check(ctx, c.charge); return err },
				"Take":      func() error { _, err := l.Take(ctx, c.charge); return err },
				"CheckTake": func() error { _, err := l.CheckTake(ctx, c.charge); return err },
				"Release":   func() error { _, err := l.Release(ctx, c.charge, reservations.Place{}); return err },
			} {
				err := ask()
				var e *reservations.ChargeError
				if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Charge.Limit != c.charge.Limit || !reservations.IsPermanent(err) || errors.Is(err, reservations.ErrUnavailable) {
					t.Errorf("%s: %#v, want a permanent %v", call, err, c.want)
					continue
				}
				for _, text := range c.text {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%s: %q is not in %q", call, text, err)
					}
				}
			}
			if calls := l.store.asked(); len(calls) > 0 {
				t.Errorf("the store was asked %v", calls)
			}
		})
	}
}

func TestLimiterLifeOfATask(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	if o, err := l.Begin(ctx, chargeOf("steady", 10), reservations.Place{}); err != nil || !o.Started() {
		t.Fatalf("%+v, %v", o, err)
	}
	waits, err := l.Begin(ctx, chargeOf("steady", 5), reservations.Place{})
	if err != nil || waits.State != reserved || waits.Wait() != 500*time.Millisecond {
		t.Fatalf("%+v, %v", waits, err)
	}
	if o, err := l.Reserve(ctx, chargeOf("steady", 5)); err != nil || o.State != reserved || o.Wait() != time.Second {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := l.Check(ctx, chargeOf("steady", 5)); err != nil || o.State != reserved || o.Wait() != 1500*time.Millisecond {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := l.Release(ctx, chargeOf("steady", 5), waits.Place()); err != nil || o.State != settled {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := l.Check(ctx, chargeOf("steady", 5)); err != nil || o.Wait() != time.Second {
		t.Fatalf("after a release: %+v, %v", o, err)
	}
	if o, err := l.Settle(ctx, chargeOf("steady", 10), reservations.Tokens{"tokens": 4}, ""); err != nil || o.State != settled || o.Shift != 600*time.Millisecond {
		t.Fatalf("%+v, %v", o, err)
	}
	if err := l.Reset(ctx, "steady", ""); err != nil {
		t.Fatal(err)
	}
	if o, err := l.Begin(ctx, chargeOf("steady", 10), reservations.Place{}); err != nil || !o.Started() || o.Hold != 0 {
		t.Fatalf("after a reset: %+v, %v", o, err)
	}
}

func TestLimiterTake(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	for _, c := range []struct {
		ask    func(context.Context, reservations.Charge) (reservations.Outcome, error)
		tokens float64
		want   reservations.State
		wait   time.Duration
	}{
		{l.CheckTake, 10, started, 0},
		{l.Take, 9, started, 0},
		{l.CheckTake, 3, refused, 200 * time.Millisecond},
		{l.Take, 3, refused, 200 * time.Millisecond},
		{l.Take, 1, started, 0},
	} {
		o, err := c.ask(ctx, chargeOf("steady", c.tokens))
		if err != nil || o.State != c.want || o.Wait() != c.wait || o.Hold != 0 {
			t.Errorf("%v tokens: %+v, %v", c.tokens, o, err)
		}
	}
	var e *reservations.ChargeError
	if _, err := l.Take(ctx, chargeOf("steady", 10.5)); !errors.Is(err, reservations.ErrChargeTooLarge) || !errors.As(err, &e) || e.Meter != "tokens" {
		t.Errorf("above the capacity, which a begin may owe: %v", err)
	}
}

func TestLimiterKeysHaveTheirOwnBuckets(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	for _, key := range []string{"", "a", "b"} {
		c := chargeOf("steady", 10)
		c.Key = key
		if o, err := l.Begin(t.Context(), c, reservations.Place{}); err != nil || !o.Started() {
			t.Errorf("key %q: %+v, %v", key, o, err)
		}
	}
	if err := l.Reset(t.Context(), "steady", "a"); err != nil {
		t.Error(err)
	}
	if _, ok, _ := l.mem.Bucket(t.Context(), "steady", "a"); ok {
		t.Error("the bucket of key a is still there")
	}
	if err := l.Reset(t.Context(), "unknown", "a"); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("reset of an unknown limit: %v", err)
	}
}

func TestReserveMany(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	if got, err := l.ReserveMany(t.Context(), nil); got != nil || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	const n = 300
	charges := slices.Repeat([]reservations.Charge{chargeOf("steady", 1)}, n)
	outcomes, err := l.ReserveMany(t.Context(), charges)
	if err != nil || len(outcomes) != n {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	for i, o := range outcomes {
		if want := time.Duration(max(0, i-9)) * 100 * time.Millisecond; o.State != reserved || (o.Wait()-want).Abs() > time.Microsecond {
			t.Fatalf("outcome %d is %s in %v, want reserved in %v", i, o.State, o.Wait(), want)
		}
	}
	if calls := len(l.store.asked()); calls > 4 {
		t.Errorf("%d calls for %d charges", calls, n)
	}
	charges[n-1].Key = "other"
	if _, err := l.ReserveMany(t.Context(), charges); !errors.Is(err, reservations.ErrInvalidCharge) || !strings.Contains(err.Error(), "bucket steady") {
		t.Errorf("of two buckets: %v", err)
	}
	l.store.faults = []fault{"", down}
	charges[n-1].Key = ""
	if _, err := l.ReserveMany(t.Context(), charges); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("with a fault in the middle: %v", err)
	}
}

// When the store can't answer, every call says so, and the error leads to the store's own.
func TestLimiterUnavailable(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{down, lost, untold} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, steady())
			ctx, c := t.Context(), chargeOf("steady", 1)
			for call, ask := range map[string]func() error{
				"Begin":   func() error { _, err := l.Begin(ctx, c, reservations.Place{}); return err },
				"Reserve": func() error { _, err := l.Reserve(ctx, c); return err },
				"Check":   func() error { _, err := l.Check(ctx, c); return err },
				"Take":    func() error { _, err := l.Take(ctx, c); return err },
				"Release": func() error { _, err := l.Release(ctx, c, reservations.Place{}); return err },
			} {
				l.store.faults = []fault{f}
				err := ask()
				var e *reservations.UnavailableError
				if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, errCable) || !errors.As(err, &e) || e.Bucket != "steady" || reservations.IsPermanent(err) {
					t.Errorf("%s: %#v", call, err)
				}
				if !strings.Contains(err.Error(), "bucket steady: reservations: store unavailable: cable cut") {
					t.Errorf("%s: %v", call, err)
				}
			}
		})
	}
}

func TestLimiterResetUnavailable(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Reset(ctx, "steady", ""); !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Exactly as many as there is room for are admitted, however many ask at once, and everybody else is told when to come back.
func TestLimiterAdmitsExactly(t *testing.T) {
	t.Parallel()
	const callers, each, room = 64, 20, 500
	m := reservations.Meter{Name: "tokens", Rate: 1, Period: time.Hour, Capacity: room, MaxReserved: reservations.Unlimited}
	l := setupLimiter(t, reservations.Limit{Name: "exact", Meters: []reservations.Meter{m}})
	var wg sync.WaitGroup
	outcomes := make(chan reservations.Outcome, callers*each)
	for range callers {
		wg.Go(func() {
			for range each {
				o, err := l.Begin(t.Context(), chargeOf("exact", 1), reservations.Place{})
				if err != nil {
					t.Error(err)
				}
				outcomes <- o
			}
		})
	}
	wg.Wait()
	close(outcomes)
	started := 0
	versions, dues := map[int64]bool{}, map[string]bool{}
	for o := range outcomes {
		versions[o.Version] = true
		if o.Started() {
			started++
			continue
		}
		dues[fmt.Sprint(o.Wait().Round(time.Second))] = true
	}
	if started != room || len(versions) != callers*each || len(dues) != callers*each-room {
		t.Errorf("%d started, %d versions, %d times; want %d, %d, %d", started, len(versions), len(dues), room, callers*each, callers*each-room)
	}
	if use := l.use("exact", "")["tokens"]; use != 0 {
		t.Errorf("%v left", use)
	}
}
