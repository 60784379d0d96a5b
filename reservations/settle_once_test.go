package reservations_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// With an ID the whole correction is repeated, and applied once, whatever became of the first.
func TestSettleRepeatsWithID(t *testing.T) {
	t.Parallel()
	used := reservations.Tokens{"requests": 3, "tokens": 150} // of 1 and 400: takes 2 requests, gives 250 tokens back
	for _, c := range []struct {
		name   string
		faults []fault
		others int                // settlements between the first attempt and the next
		want   map[string]float64 // what is left of 60 requests and 700 tokens
	}{
		{"no fault", nil, 0, map[string]float64{"requests": 58, "tokens": 950}},
		{"down", []fault{down, down}, 0, map[string]float64{"requests": 58, "tokens": 950}},
		{"answer lost", []fault{lost}, 0, map[string]float64{"requests": 58, "tokens": 950}},
		{"unsaid", []fault{unsaid}, 0, map[string]float64{"requests": 58, "tokens": 950}},
		{
			"lost, down, hanging, lost",
			[]fault{lost, down, hanging, lost},
			0,
			map[string]float64{"requests": 58, "tokens": 950},
		},
		{"answer lost, and forgotten", []fault{lost}, 64, map[string]float64{"requests": 56, "tokens": 950}}, // only takes
		{"unsaid, and perhaps forgotten", []fault{unsaid}, 65, map[string]float64{"requests": 58, "tokens": 700}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, openai())
				l.mustStart(t, reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 0}})
				l.now = l.now.Add(time.Minute) // the bucket is older than the settlement
				task := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 400}}
				l.mustStart(t, task)
				l.now = l.now.Add(6 * time.Second)
				l.store.faults = c.faults
				done := make(chan error)
				go func() {
					_, err := l.Settle(t.Context(), task, used, "task/1")
					done <- err
				}()
				synctest.Wait() // the first attempt is over
				for i := range c.others {
					other := []bucket.Request{settleID(int64(i+1), 0, 0, 0)}
					if _, err := bucket.Apply(t.Context(), l.mem, bucket.Rules(openai()), "", other); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, l.left("openai", "")); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
				<-time.After(reservations.CallTimeoutDefault) // a call that hangs ends without its caller
			})
		})
	}
}

// What was settled twice under one ID, or settled and cancelled, counts once; another start of the same task counts by
// itself.
func TestSettleOnce(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	c := chargeOf("steady", 5)
	want := func(left float64) {
		t.Helper()
		if diff := cmp.Diff(map[string]float64{"tokens": left}, l.left("steady", "")); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	}
	for range 2 {
		l.mustStart(t, c)
	}
	for range 3 {
		if o, err := l.Settle(t.Context(), c, reservations.Tokens{"tokens": 1}, "a/1"); err != nil || o.State != settled {
			t.Errorf("%+v, %v", o, err)
		}
		want(4)
	}
	if _, err := l.Cancel(t.Context(), c, "a/1"); err != nil {
		t.Error(err)
	}
	want(4)
	if _, err := l.Cancel(t.Context(), c, "a/2"); err != nil {
		t.Error(err)
	}
	want(9)
}

// The mode of a meter goes before that of its limit.
func TestSettleByMeter(t *testing.T) {
	t.Parallel()
	l := openai()
	l.Settle = reservations.SettleKeep
	l.Meters[1].Settle = reservations.SettleAdjust
	b := setupLimiter(t, l)
	task := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 10, "tokens": 400}}
	b.mustStart(t, task)
	if _, err := b.Settle(t.Context(), task, reservations.Tokens{"requests": 1, "tokens": 150}, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"requests": 50, "tokens": 850}, b.left("openai", "")); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
