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

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// openai is 60 requests and 1000 tokens a minute, with 500 tokens that may be promised ahead.
func openai() reservations.Limit {
	requests, tokens := reservations.PerMinute("requests", 60), reservations.PerMinute("tokens", 1000)
	tokens.MaxReserved = 500
	return reservations.Limit{Name: "openai", Meters: []reservations.Meter{requests, tokens}}
}

// steady is 10 tokens a second with a capacity of 10 and unlimited promises.
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
	b.mem = memstore.NewAt(func() time.Time { return b.now })
	b.store = &faultyStore{Store: b.mem}
	var err error
	if b.Limiter, err = reservations.New(b.store, limits, reservations.Config{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// bucket is the stored one.
func (b *limiterBundle) bucket(limit, key string) bucket.Bucket {
	held, _, _ := bucket.Read(context.Background(), b.mem, limit, key)
	return held
}

// left is what may still start, by meter, as of the last request.
func (b *limiterBundle) left(limit, key string) map[string]float64 {
	left := map[string]float64{}
	for _, m := range b.bucket(limit, key).Meters {
		left[m.Name] = m.Started
	}
	return left
}

func chargeOf(limit string, tokens float64) reservations.Charge {
	return reservations.Charge{Limit: limit, Tokens: reservations.Tokens{"tokens": tokens}}
}

// mustStart starts a new task.
func (b *limiterBundle) mustStart(t *testing.T, c reservations.Charge) reservations.Outcome {
	t.Helper()
	o, err := b.Ask(t.Context(), c)
	if err != nil || !o.Started() {
		t.Fatalf("%+v, %v", o, err)
	}
	return o
}

func TestNewReportsEveryFault(t *testing.T) {
	t.Parallel()
	bad := reservations.Limit{Name: "bad", Meters: []reservations.Meter{{Name: "tokens", Rate: -1, Period: time.Second}}}
	_, err := reservations.New(memstore.New(), []reservations.Limit{bad, openai(), openai(), {Name: "none"}},
		reservations.Config{})
	if !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Fatalf("%v is no ErrInvalidLimit", err)
	}
	for _, want := range []string{
		`limit "bad": tokens.rate: -1`, `limit "openai": name: is there twice`, `limit "none": meters: needs at least one`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestLimiterNames(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady(), openai())
	names := inside.Of(l).Limits().Names()
	if diff := cmp.Diff([]string{"openai", "steady"}, names); diff != "" {
		t.Error(diff)
	}
	names[0] = "changed"
	if inside.Of(l).Limits().Names()[0] != "openai" {
		t.Error("the names are not a copy")
	}
	got, err := inside.Of(l).Limits().For("steady", "")
	if diff := cmp.Diff(steady(), got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// A charge that can never be served is refused by every call before the store is asked, with an error that says what is
// wrong.
func TestLimiterRefusesBadCharges(t *testing.T) {
	t.Parallel()
	keyed := func(key string) reservations.Charge {
		c := chargeOf("steady", 1)
		c.Key = key
		return c
	}
	tokens := func(name string, n float64) reservations.Charge {
		all := reservations.Tokens{"requests": 0, "tokens": 0}
		all[name] = n
		return reservations.Charge{Limit: "openai", Key: "k", Tokens: all}
	}
	long := strings.Repeat("k", bucket.MaxKey+1)
	for _, c := range []struct {
		name   string
		charge reservations.Charge
		want   error
		text   []string
	}{
		{"unknown limit", chargeOf("opanai", 1), reservations.ErrUnknownLimit, []string{
			`"opanai"`, `"openai"`,
			`"steady"`,
		}},
		{"unknown meter", tokens("images", 1), reservations.ErrUnknownMeter, []string{"images", "openai", `"requests"`}},
		{"negative", tokens("requests", -1), reservations.ErrInvalidCharge, []string{"requests", "openai:k", "-1"}},
		{
			"too large", tokens("tokens", 1501), reservations.ErrChargeTooLarge,
			[]string{"tokens", "openai", "1501", "1000", "500"},
		},
		{"key too long", keyed(long), reservations.ErrInvalidCharge, []string{"513 bytes", "512"}},
		{"key not UTF-8", keyed("a\xff"), reservations.ErrInvalidCharge, []string{`"a\xff"`, "UTF-8"}},
		{"key with NUL", keyed("a\x00b"), reservations.ErrInvalidCharge, []string{`"a\x00b"`, "control"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, steady(), openai())
			ctx, held := t.Context(), c.charge
			held.Held = reserved
			for call, ask := range map[string]func() error{
				"Validate": func() error { return l.Validate(c.charge) },
				"Start":    func() error { _, err := l.Ask(ctx, c.charge); return err },
				"promoted": func() error { _, err := l.Ask(ctx, held); return err },
				"Reserve":  func() error { _, err := l.Reserve(ctx, c.charge); return err },
				"Reserve two": func() error {
					good := chargeOf(c.charge.Limit, 1)
					if good.Limit == "openai" {
						good.Tokens["requests"] = 1
					}
					good.Key = c.charge.Key
					_, err := l.Reserve(ctx, good, c.charge)
					return err
				},
				"Check":   func() error { _, err := l.Check(ctx, c.charge); return err },
				"Allow":   func() error { _, err := l.Allow(ctx, c.charge); return err },
				"Release": func() error { _, err := l.Release(ctx, held); return err },
			} {
				err := ask()
				var e *reservations.ChargeError
				if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Charge.Limit != c.charge.Limit ||
					!reservations.IsPermanent(err) || errors.Is(err, reservations.ErrUnavailable) {
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

// No call reaches a store with a key that it could not keep.
func TestLimiterBoundsKeys(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	for key, ok := range map[string]bool{
		strings.Repeat("k", 512): true, strings.Repeat("é", 256): true, "": true, "a:b#1 ?": true,
		strings.Repeat("k", 513): false, strings.Repeat("é", 257): false, "\xff": false, "a\x00": false,
	} {
		c := chargeOf("steady", 5)
		c.Key = key
		for call, ask := range map[string]func() error{
			"Settle":  func() error { _, err := l.Settle(ctx, c, reservations.Tokens{"tokens": 1}, ""); return err },
			"Cancel":  func() error { _, err := l.Cancel(ctx, c, ""); return err },
			"Block":   func() error { _, err := l.Block(ctx, c, time.Second); return err },
			"Unblock": func() error { _, err := l.Unblock(ctx, c.Limit, key); return err },
			"Sync": func() error {
				_, err := l.Sync(ctx, c, reservations.Observation{Remaining: reservations.Tokens{"tokens": 1}})
				return err
			},
			"Refresh": func() error { _, err := l.Refresh(ctx, c); return err },
			"Reset":   func() error { return l.Reset(ctx, c.Limit, key) },
			"View":    func() error { _, err := l.View(ctx, c.Limit, key); return err },
		} {
			if err := ask(); ok != (err == nil) || !ok && !errors.Is(err, reservations.ErrInvalidCharge) {
				t.Errorf("%s of a key of %d bytes: %v", call, len(key), err)
			}
		}
	}
}

// Names are checked once for each call, in each of its charges.
func TestLimiterBoundsFlowsOfAllCharges(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	good, bad := chargeOf("steady", 5), chargeOf("steady", 5)
	bad.Flow = "a\x00"
	for name, ask := range map[string]func() error{
		"Start":            func() error { _, err := l.Ask(t.Context(), bad); return err },
		"Check":            func() error { _, err := l.Check(t.Context(), bad); return err },
		"Validate":         func() error { return l.Validate(bad) },
		"Reserve":          func() error { _, err := l.Reserve(t.Context(), bad, good); return err },
		"Reserve, 2nd":     func() error { _, err := l.Reserve(t.Context(), good, bad); return err },
		"Allow":            func() error { _, err := l.Allow(t.Context(), bad); return err },
		"Wait":             func() error { _, err := l.Wait(t.Context(), bad); return err },
		"Grant of a claim": func() error { return beginOne(t.Context(), l, bad) },
	} {
		if err := ask(); !errors.Is(err, reservations.ErrInvalidCharge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// beginOne starts one charge as package worker does.
func beginOne(ctx context.Context, l *limiterBundle, c reservations.Charge) error {
	ask := func(_ reservations.Charge, _ bool, ask func(context.Context) error) error { return ask(ctx) }
	_, err := l.Start("a", c).Begin(ctx, time.Second, ask)
	return err
}

func TestLimiterLifeOfATask(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	l.mustStart(t, chargeOf("steady", 10))
	waits, err := l.Ask(ctx, chargeOf("steady", 5))
	if err != nil || waits.State != reserved || waits.Wait() != 500*time.Millisecond {
		t.Fatalf("%+v, %v", waits, err)
	}
	outcomes, err := l.Reserve(ctx, chargeOf("steady", 5))
	if err != nil || outcomes[0].State != reserved || outcomes[0].Wait() != time.Second {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if o, err := l.Check(ctx, chargeOf("steady", 5)); err != nil || o.State != refused ||
		o.Wait() != 1500*time.Millisecond {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := l.Release(ctx, waits.Charge); err != nil || o.State != settled {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := l.Check(ctx, chargeOf("steady", 5)); err != nil || o.Wait() != time.Second {
		t.Fatalf("after a release: %+v, %v", o, err)
	}
	held := outcomes[0].Charge
	if o, err := l.Ask(ctx, held); err != nil || o.State != waiting ||
		o.Wait() != 500*time.Millisecond {
		t.Fatalf("promoted too early: %+v, %v", o, err)
	}
	if o, err := l.Settle(ctx, chargeOf("steady", 10), reservations.Tokens{"tokens": 4}, ""); err != nil ||
		o.State != settled {
		t.Fatalf("%+v, %v", o, err)
	}
	if o, err := l.Ask(ctx, held); err != nil || !o.Started() || o.Hold != 0 {
		t.Fatalf("after a settlement: %+v, %v", o, err)
	}
	near(t, balances(l.bucket("steady", "")), 1, 1)
	if err := l.Reset(ctx, "steady", ""); err != nil {
		t.Fatal(err)
	}
	if o := l.mustStart(t, chargeOf("steady", 10)); o.Hold != 0 {
		t.Fatalf("after a reset: %+v", o)
	}
}

// A reservation without a promise is nothing that could be released.
func TestReleaseOfNothing(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	if o, err := l.Release(t.Context(), chargeOf("steady", 5)); err != nil || o.State != "" {
		t.Errorf("%+v, %v", o, err)
	}
	if calls := l.store.asked(); len(calls) > 0 {
		t.Errorf("the store was asked %v", calls)
	}
}

func TestLimiterAllow(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	allow := func(ctx context.Context, c reservations.Charge) (reservations.Outcome, error) {
		g, err := l.Allow(ctx, c)
		return g.Outcomes()[0], err
	}
	for _, c := range []struct {
		ask    func(context.Context, reservations.Charge) (reservations.Outcome, error)
		tokens float64
		want   string
		wait   time.Duration
	}{
		{l.Check, 10, started, 0},
		{allow, 9, started, 0},
		{l.Check, 3, refused, 200 * time.Millisecond},
		{allow, 3, refused, 200 * time.Millisecond},
		{allow, 1, started, 0},
	} {
		o, err := c.ask(ctx, chargeOf("steady", c.tokens))
		if err != nil || o.State != c.want || o.Wait() != c.wait || o.Hold != 0 {
			t.Errorf("%v tokens: %+v, %v", c.tokens, o, err)
		}
	}
	var e *reservations.ChargeError
	if _, err := l.Allow(ctx, chargeOf("steady", 10.5)); !errors.Is(err, reservations.ErrChargeTooLarge) ||
		!errors.As(err, &e) || e.Meter != "tokens" {
		t.Errorf("above the capacity, which a start may owe: %v", err)
	}
}

func TestLimiterUrgent(t *testing.T) {
	t.Parallel()
	limit := withHeadroom(steady(), 4)
	l := setupLimiter(t, limit)
	l.mustStart(t, chargeOf("steady", 6))
	c := chargeOf("steady", 4)
	if o, err := l.Reserve(t.Context(), c); err != nil || o[0].Wait() != 400*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	c.Urgent = true
	if o, err := l.Check(t.Context(), c); err != nil || !o.Started() {
		t.Errorf("%+v, %v", o, err)
	}
	l.mustStart(t, c)
}

func TestLimiterKeysHaveTheirOwnBuckets(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	for _, key := range []string{"", "a", "b"} {
		c := chargeOf("steady", 10)
		c.Key = key
		l.mustStart(t, c)
	}
	if err := l.Reset(t.Context(), "steady", "a"); err != nil {
		t.Error(err)
	}
	if !l.bucket("steady", "a").At.IsZero() {
		t.Error("the bucket of key a is still there")
	}
	if err := l.Reset(t.Context(), "unknown", "a"); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("reset of an unknown limit: %v", err)
	}
}

func TestReserveSeveral(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	if got, err := l.Reserve(t.Context()); got != nil || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	const n = 300
	charges := slices.Repeat([]reservations.Charge{chargeOf("steady", 1)}, n)
	outcomes, err := l.Reserve(t.Context(), charges...)
	if err != nil || len(outcomes) != n {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	for i, o := range outcomes {
		if want := time.Duration(max(0, i-9)) * 100 * time.Millisecond; o.State != reserved ||
			(o.Wait()-want).Abs() > time.Microsecond {
			t.Fatalf("outcome %d is %s in %v, want reserved in %v", i, o.State, o.Wait(), want)
		}
	}
	if calls := len(l.store.asked()); calls != 1 {
		t.Errorf("%d calls for %d charges", calls, n)
	}
	charges[n-1].Key = "other"
	if _, err := l.Reserve(t.Context(), charges...); !errors.Is(err, reservations.ErrInvalidCharge) ||
		!strings.Contains(err.Error(), `bucket "steady"`) {
		t.Errorf("of two buckets: %v", err)
	}
	l.store.faults = []fault{down}
	charges[n-1].Key = ""
	if _, err := l.Reserve(t.Context(), charges...); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("with a fault: %v", err)
	}
}

// When the store can't answer, every call says so, and the error leads to the store's own.
func TestLimiterUnavailable(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{down, lost, unsaid, breaking} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, steady())
			ctx, c := t.Context(), chargeOf("steady", 1)
			held := c
			held.Held = reserved
			for call, ask := range map[string]func() error{
				"Start":    func() error { _, err := l.Ask(ctx, c); return err },
				"promoted": func() error { _, err := l.Ask(ctx, held); return err },
				"Reserve":  func() error { _, err := l.Reserve(ctx, c); return err },
				"Check":    func() error { _, err := l.Check(ctx, c); return err },
				"Allow":    func() error { _, err := l.Allow(ctx, c); return err },
				"Release":  func() error { _, err := l.Release(ctx, held); return err },
				"Refresh":  func() error { _, err := l.Refresh(ctx, c); return err },
				"Unblock":  func() error { _, err := l.Unblock(ctx, "steady", ""); return err },
			} {
				l.store.faults = []fault{f}
				err := ask()
				var e *bucket.UnavailableError
				if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, errCable) || !errors.As(err, &e) ||
					e.Bucket != "steady" || reservations.IsPermanent(err) || (e.Applied == bucket.AppliedNo) != (f == down) {
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
	if err := l.Reset(ctx, "steady", ""); !errors.Is(err, reservations.ErrUnavailable) ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A bucket follows a changed limit by Refresh, and is only read where it follows already.
func TestLimiterRefresh(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	l.mustStart(t, chargeOf("steady", 3))
	before := l.bucket("steady", "")
	if o, err := l.Refresh(t.Context(), reservations.Charge{Limit: "steady"}); err != nil || len(o) != 1 ||
		o[0].Bucket.Version != before.Version {
		t.Errorf("%+v, %v", o, err)
	}
	faster := steady()
	faster.Meters[0].Rate = 5
	if err := l.SetLimits([]reservations.Limit{faster}); err != nil {
		t.Fatal(err)
	}
	o, err := l.Refresh(t.Context(), reservations.Charge{Limit: "steady"})
	limit, _ := inside.Of(l).Limits().For("steady", "")
	rules := bucket.Rules(limit)
	if err != nil || !o[0].Bucket.Follows(rules) || before.Follows(rules) ||
		o[0].Bucket.Version != before.Version+1 {
		t.Errorf("%+v, %v", o, err)
	}
	near(t, balances(l.bucket("steady", "")), 5, 5)
	if _, err := l.Refresh(t.Context(), reservations.Charge{Limit: "none"}); !errors.Is(err,
		reservations.ErrUnknownLimit) {
		t.Errorf("of an unknown limit: %v", err)
	}
}

// Exactly as many start as there is room for, however many ask at once, and all others get a time of their own.
func TestLimiterAdmitsExactly(t *testing.T) {
	t.Parallel()
	const callers, each, room = 64, 20, 500
	m := reservations.Meter{
		Name: "tokens", Rate: 1, Period: time.Hour, Capacity: room,
		MaxReserved: 0,
	}
	l := setupLimiter(t, reservations.Limit{Name: "exact", Meters: []reservations.Meter{m}})
	var wg sync.WaitGroup
	outcomes := make(chan reservations.Outcome, callers*each)
	for range callers {
		wg.Go(func() {
			for range each {
				o, err := l.Ask(t.Context(), chargeOf("exact", 1))
				if err != nil {
					t.Error(err)
				}
				outcomes <- o
			}
		})
	}
	wg.Wait()
	close(outcomes)
	starts := 0
	versions, times := map[int64]bool{}, map[string]bool{}
	for o := range outcomes {
		versions[o.Bucket.Version] = true
		if o.Started() {
			starts++
			continue
		}
		times[fmt.Sprint(o.Wait().Round(time.Second))] = true
	}
	if starts != room || len(versions) != callers*each || len(times) != callers*each-room {
		t.Errorf("%d started, %d versions, %d times; want %d, %d, %d",
			starts, len(versions), len(times), room, callers*each, callers*each-room)
	}
	if left := l.left("exact", "")["tokens"]; left != 0 {
		t.Errorf("%v left", left)
	}
}

// Without a store nothing could ever start, so New says what to pass.
func TestNewNeedsAStore(t *testing.T) {
	t.Parallel()
	_, err := reservations.New(nil, []reservations.Limit{{Name: "?"}}, reservations.Config{})
	if field, ok := errors.AsType[*reservations.FieldError](err); !ok || field.Field != "store" ||
		!strings.Contains(err.Error(), "memstore.New()") || !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Errorf("a limiter without a store: %v", err)
	}
	if _, err = reservations.New(reservations.NoStore(), nil, reservations.Config{}); err != nil {
		t.Error(err)
	}
}
