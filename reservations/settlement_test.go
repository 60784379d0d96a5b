package reservations_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	keep := openai()
	keep.Settle = reservations.SettleKeep
	charge := reservations.Tokens{"requests": 1, "tokens": 400}
	for _, c := range []struct {
		name  string
		limit reservations.Limit
		used  reservations.Tokens
		want  map[string]float64 // what is left of 60 requests and 1000 tokens
		calls int                // beside the begin
	}{
		{"gives back", openai(), reservations.Tokens{"tokens": 150}, map[string]float64{"requests": 59, "tokens": 850}, 1},
		{
			"gives all back", openai(),
			reservations.Tokens{"requests": 0, "tokens": 0},
			map[string]float64{"requests": 60, "tokens": 1000},
			1,
		},
		{"takes", openai(), reservations.Tokens{"tokens": 1300}, map[string]float64{"requests": 59, "tokens": -300}, 1},
		{
			"takes more than could be charged", openai(),
			reservations.Tokens{"tokens": 5000},
			map[string]float64{"requests": 59, "tokens": -4000},
			1,
		},
		{
			"exact", openai(),
			reservations.Tokens{"requests": 1, "tokens": 400},
			map[string]float64{"requests": 59, "tokens": 600},
			0,
		},
		{"nothing named is exact", openai(), nil, map[string]float64{"requests": 59, "tokens": 600}, 0},
		{
			"keep gives nothing back", keep,
			reservations.Tokens{"tokens": 150},
			map[string]float64{"requests": 59, "tokens": 600},
			0,
		},
		{
			"keep takes", keep,
			reservations.Tokens{"requests": 0, "tokens": 450},
			map[string]float64{"requests": 59, "tokens": 550},
			1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, c.limit)
			task := reservations.Charge{Limit: "openai", Key: "gpt", Tokens: charge}
			l.mustStart(t, task)
			o, err := l.Settle(t.Context(), task, c.used, "")
			if err != nil || (o.State == settled) != (c.calls > 0) {
				t.Errorf("%+v, %v", o, err)
			}
			if diff := cmp.Diff(c.want, l.left("openai", "gpt")); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if calls := len(l.store.asked()) - 1; calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
		})
	}
}

func TestSettleCorrectsTheMetersThatItCan(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, openai())
	task := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 400}}
	l.mustStart(t, task)
	o, err := l.Settle(t.Context(), task, reservations.Tokens{"tokens": 700, "requests": -1, "images": 3}, "")
	if o.State != settled || !errors.Is(err, reservations.ErrUnknownMeter) ||
		!errors.Is(err, reservations.ErrInvalidCharge) {
		t.Errorf("%+v, %v", o, err)
	}
	if diff := cmp.Diff(map[string]float64{"requests": 59, "tokens": 300}, l.left("openai", "")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestSettleRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, openai())
	for _, c := range []struct {
		limit string
		used  reservations.Tokens
		want  error
	}{
		{"unknown", nil, reservations.ErrUnknownLimit},
		{"openai", reservations.Tokens{"images": 1}, reservations.ErrUnknownMeter},
		{"openai", reservations.Tokens{"tokens": -1}, reservations.ErrInvalidCharge},
	} {
		if _, err := l.Settle(t.Context(), chargeOf(c.limit, 10), c.used, ""); !errors.Is(err, c.want) {
			t.Errorf("%s %v: %v, want %v", c.limit, c.used, err, c.want)
		}
	}
	if calls := l.store.asked(); len(calls) > 0 {
		t.Errorf("the store was asked %v", calls)
	}
}

// A settlement that meets a fault is repeated until it is done: in full where it certainly was not applied, and where
// it may have been, only what takes.
func TestSettleRepeats(t *testing.T) {
	t.Parallel()
	mixed := reservations.Tokens{"requests": 3, "tokens": 150} // of 1 and 400: takes 2 requests, gives 250 tokens back
	gives := reservations.Tokens{"tokens": 150}
	full, takes, only := []float64{-2, 250}, []float64{-2, 0}, []float64{0, 250}
	for _, c := range []struct {
		name   string
		used   reservations.Tokens
		faults []fault
		asked  [][]float64
		want   map[string]float64 // what is left of 60 requests and 700 tokens
	}{
		{
			"down", mixed,
			[]fault{down, down, down},
			[][]float64{full, full, full, full},
			map[string]float64{"requests": 58, "tokens": 950},
		},
		{"answer lost", mixed, []fault{lost}, [][]float64{full, takes}, map[string]float64{"requests": 56, "tokens": 950}},
		{"unsaid", mixed, []fault{unsaid}, [][]float64{full, takes}, map[string]float64{"requests": 58, "tokens": 700}},
		{
			"down, then lost, then down", mixed,
			[]fault{down, lost, down},
			[][]float64{full, full, takes, takes},
			map[string]float64{"requests": 56, "tokens": 950},
		},
		{"hanging", mixed, []fault{hanging}, [][]float64{full, takes}, map[string]float64{"requests": 58, "tokens": 700}},
		{
			"lost, and nothing to take", gives,
			[]fault{lost},
			[][]float64{only},
			map[string]float64{"requests": 60, "tokens": 950},
		},
		{"no fault", gives, nil, [][]float64{only}, map[string]float64{"requests": 60, "tokens": 950}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, openai())
				task := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 400}}
				l.mustStart(t, task)
				l.now = l.now.Add(6 * time.Second)
				l.store.faults = c.faults
				if _, err := l.Settle(t.Context(), task, c.used, ""); err != nil {
					t.Fatal(err)
				}
				var asked [][]float64
				for i, call := range l.store.asked()[1:] {
					asked = append(asked, call[0].Tokens)
					if late := call[0].Late; (late > 0) != (i > 0) {
						t.Errorf("attempt %d says that it is %v late", i, late)
					}
				}
				if diff := cmp.Diff(c.asked, asked); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.want, l.left("openai", "")); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The pauses between the attempts grow, up to some seconds: a store that comes back after minutes is not missed for
// long, and not stormed.
func TestSettlePauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := setupLimiter(t, steady())
		for range 30 {
			l.store.faults = append(l.store.faults, down)
		}
		start := time.Now()
		if _, err := l.Settle(t.Context(), chargeOf("steady", 5), reservations.Tokens{"tokens": 1}, ""); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < time.Minute || took > 4*time.Minute {
			t.Errorf("30 repetitions took %v", took)
		}
	})
}

func TestSettleGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{down, hanging} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, steady())
				for range 1000 {
					l.store.faults = append(l.store.faults, f)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				start := time.Now()
				_, err := l.Settle(ctx, chargeOf("steady", 5), reservations.Tokens{"tokens": 9}, "")
				if !errors.Is(err, reservations.ErrUnavailable) {
					t.Errorf("%v is not ErrUnavailable", err)
				}
				if took := time.Since(start); took != 3*time.Second {
					t.Errorf("gave up after %v, want 3s", took)
				}
				<-time.After(reservations.CallTimeoutDefault) // the last call ends without its caller
			})
		})
	}
}

// A store that gives another error than it should is one that is away.
func TestSettleRepeatsOtherErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := setupLimiter(t, steady())
		l.store.faults = []fault{breaking, breaking}
		if _, err := l.Settle(t.Context(), chargeOf("steady", 5), reservations.Tokens{"tokens": 9}, "a"); err != nil {
			t.Errorf("%v", err)
		}
		if calls := len(l.store.asked()); calls != 3 {
			t.Errorf("%d calls", calls)
		}
	})
}

// What is given back without an ID is given back once, also if the store does not say whether it was applied.
func TestSettleGivesBackOnceWhereTheStoreDoesNotSay(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{lost, bare} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, steady())
				l.store.faults = []fault{f}
				if _, err := l.Settle(t.Context(), chargeOf("steady", 5), reservations.Tokens{"tokens": 2}, ""); err != nil {
					t.Error(err)
				}
				if calls := len(l.store.asked()); calls != 1 {
					t.Errorf("%d calls, want 1", calls)
				}
			})
		})
	}
}

// A task that started with a promise keeps it when the start is given back.
func TestCancelKeepsTheReservation(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		l := setupLimiter(t, steady())
		ctx, c := t.Context(), chargeOf("steady", 5)
		outcomes, err := l.Reserve(ctx, c)
		if err != nil || outcomes[0].State != reserved {
			t.Fatalf("%+v, %v", outcomes, err)
		}
		o, err := l.Ask(ctx, outcomes[0].Charge)
		if err != nil || !o.Started() {
			t.Fatalf("%+v, %v", o, err)
		}
		want := []float64{10, 5}
		if !keeps {
			want, o.Charge.Held = []float64{10, 10}, ""
		}
		if _, err := l.Cancel(ctx, o.Charge, "task/1"); err != nil {
			t.Fatal(err)
		}
		near(t, balances(l.bucket("steady", "")), want...)
	}
}

// Cancel gives back what SettleKeep would keep.
func TestCancelGivesAllBack(t *testing.T) {
	t.Parallel()
	limit := steady()
	limit.Settle = reservations.SettleKeep
	l := setupLimiter(t, limit)
	l.mustStart(t, chargeOf("steady", 5))
	if _, err := l.Settle(t.Context(), chargeOf("steady", 5), reservations.Unused(chargeOf("steady", 5)),
		"a"); err != nil {
		t.Fatal(err)
	}
	near(t, balances(l.bucket("steady", "")), 5, 5)
	if _, err := l.Cancel(t.Context(), chargeOf("steady", 5), "a"); err != nil {
		t.Fatal(err)
	}
	near(t, balances(l.bucket("steady", "")), 10, 10)
	if _, err := l.Cancel(t.Context(), chargeOf("unknown", 5), "a"); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("%v", err)
	}
}
