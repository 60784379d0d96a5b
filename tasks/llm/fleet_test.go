package llm_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/inside"
	judge "github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks/llm"
)

// direct calls a provider without a network.
type direct struct{ server *judge.Server }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

// fleet is a number of callers of one provider, in virtual time.
type fleet struct {
	t       *testing.T
	client  *llm.Client
	limiter *reservations.Limiter
	turn    chan struct{} // first come, first served, as in a waitlist
}

// lookEvery is how often the first waiting chat asks, because refunds may let it start.
const lookEvery = 50 * time.Millisecond

const (
	fleetRequests = 20.0   // a second
	fleetTokens   = 5000.0 // a second
)

// scene is a fleet and its provider.
type scene struct {
	chats   int
	callers int     // concurrent calls
	burst   float64 // seconds of the rate
	before  int     // tokens that another program took just before
	config  judge.Config
}

// play runs the chats through a limit equal to the provider's, and returns the provider's counts.
func (c scene) play(t *testing.T, mode llm.Sync) judge.Report {
	t.Helper()
	var report judge.Report
	synctest.Test(t, func(t *testing.T) {
		config := c.config
		config.Requests = judge.Quota{Rate: fleetRequests, Capacity: c.burst * fleetRequests}
		config.Tokens = judge.Quota{Rate: fleetTokens, Capacity: c.burst * fleetTokens}
		server, err := judge.New(config)
		if err != nil {
			t.Fatal(err)
		}
		settle := reservations.SettleAdjust
		if config.KeepEstimate {
			settle = reservations.SettleKeep
		}
		limit := reservations.Limit{Name: "openai", Settle: settle, Meters: []reservations.Meter{
			{
				Name: llm.MeterRequests, Rate: fleetRequests, Period: time.Second, Capacity: c.burst * fleetRequests,
				MaxReserved: 0,
			},
			{
				Name: llm.MeterTokens, Rate: fleetTokens, Period: time.Second, Capacity: c.burst * fleetTokens,
				MaxReserved: 0,
			},
		}}
		f := &fleet{t: t, turn: make(chan struct{}, 1)}
		if f.limiter, err = reservations.New(memstore.New(), []reservations.Limit{limit},
			reservations.Config{}); err != nil {
			t.Fatal(err)
		}
		f.client, err = llm.NewClient(llm.Config{
			BaseURL: "http://provider/v1", APIKey: secret, Sync: mode,
			HTTPClient: &http.Client{Transport: direct{server}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if c.before > 0 {
			body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]}`, c.before)
			if _, err := f.client.Run(t.Context(), newChat(t, body), nil); err != nil {
				t.Fatal(err)
			}
		}
		f.run(t.Context(), c)
		report = server.Report()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return report
}

func (f *fleet) run(ctx context.Context, c scene) {
	var all sync.WaitGroup
	places := make(chan struct{}, c.callers)
	for i := range c.chats {
		body := fmt.Sprintf(
			`{"model":"m","max_tokens":%d,"metadata":{"custom_id":"%d"},"messages":[{"role":"user","content":"What is `+
				`headway?"}]}`,
			200+i%7*100, i)
		chat := newChat(f.t, body)
		places <- struct{}{}
		all.Go(func() {
			for !f.attempt(ctx, chat) {
			}
			<-places
		})
	}
	all.Wait()
}

// attempt is one start of a task, as by a worker. It returns false if the provider refused the call.
func (f *fleet) attempt(ctx context.Context, chat llm.Call) bool {
	charge := chat.Charges()[0]
	hold, ok := f.start(ctx, charge)
	if !ok {
		return true
	}
	<-time.After(hold)
	var (
		used reservations.Tokens
		seen *reservations.Observation
	)
	_, failure := f.client.Run(ctx, chat, func(u reservations.Tokens) { used = u },
		func(o reservations.Observation) { seen = &o })
	if used != nil {
		if _, err := inside.Of(f.limiter).Settle(ctx, charge, used, ""); err != nil {
			f.t.Error(err)
		}
	}
	if seen != nil {
		if _, err := f.limiter.Sync(ctx, charge, *seen); err != nil {
			f.t.Error(err)
		}
	}
	if failed, ok := errors.AsType[*llm.Error](failure); ok {
		<-time.After(max(failed.RetryAfter, 10*time.Millisecond))
		return false
	}
	return true
}

// start waits until the bucket grants the start, and returns how long the task holds.
func (f *fleet) start(ctx context.Context, charge reservations.Charge) (hold time.Duration, ok bool) {
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	for {
		o, err := inside.Of(f.limiter).Ask(ctx, charge)
		if err != nil {
			f.t.Error(err)
			return 0, false
		}
		if o.Started() {
			return o.Hold, true
		}
		charge = o.Charge
		<-time.After(min(lookEvery, o.Wait()))
	}
}

// If no other program uses the limit, corrections by headers waste none of it, however the provider counts.
func TestSyncDoesNotWasteTheLimit(t *testing.T) {
	t.Parallel()
	const quick, slow = 400 * time.Millisecond, 8 * time.Second
	for name, config := range map[string]judge.Config{
		"short calls":                          {MaxLatency: quick},
		"long calls":                           {MaxLatency: slow},
		"the estimate counts":                  {MaxLatency: slow, KeepEstimate: true},
		"headers of the arrival":               {MaxLatency: quick, HeadersOnArrival: true},
		"headers of the arrival of long calls": {MaxLatency: slow, HeadersOnArrival: true},
		"the estimate counts on arrival":       {MaxLatency: slow, KeepEstimate: true, HeadersOnArrival: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := scene{chats: 600, callers: 600, burst: 2, config: config}
			off, down := c.play(t, llm.SyncOff), c.play(t, llm.SyncDown)
			t.Logf("utilization %.4f without, %.4f with; violations %d and %d", off.Utilization, down.Utilization,
				off.Violations, down.Violations)
			// the results of long calls vary by 1 %
			if down.Accepted != c.chats || down.Violations > off.Violations || down.Utilization < off.Utilization-0.04 {
				t.Errorf("%d of %d calls accepted", down.Accepted, c.chats)
			}
		})
	}
}

// If another program has used most of a minute's limit, the first answers show it, and the fleet goes on at the rate.
func TestSyncSeesWhatOthersHaveSpent(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]judge.Config{
		"when the answer goes": {MinLatency: time.Second, MaxLatency: 4 * time.Second, KeepEstimate: true},
		"when the request comes": {
			MinLatency: time.Second, MaxLatency: 4 * time.Second, KeepEstimate: true,
			HeadersOnArrival: true,
		},
		"with corrected counts": {MinLatency: time.Second, MaxLatency: 4 * time.Second, UsedMin: 0.9, UsedMax: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := scene{chats: 500, callers: 60, burst: 60, before: 200_000, config: config} // of 300 000
			off, down := c.play(t, llm.SyncOff), c.play(t, llm.SyncDown)
			t.Logf("utilization %.4f without, %.4f with; violations %d and %d", off.Utilization, down.Utilization,
				off.Violations, down.Violations)
			if off.Violations < 10 || down.Violations > off.Violations/5 {
				t.Error("the bucket does not know")
			}
		})
	}
}
