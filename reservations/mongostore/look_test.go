package mongostore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// many is a call with so many requests that it is worth a look.
func many() []reservations.Request { return slices.Repeat(request(1), 8) }

// looking returns a store of its own client, and how often it has looked. Looked is called after each look.
func looking(t *testing.T, sent *counted, uri, name string, o mongostore.Options, looked func()) (store *mongostore.Store, looks *int) {
	t.Helper()
	settings, err := mongostore.ClientOptions(uri)
	if err != nil {
		t.Fatal(err)
	}
	looks = new(int)
	monitor := sent.monitor(settings.Monitor)
	monitor.Succeeded = func(_ context.Context, e *event.CommandSucceededEvent) {
		if e.CommandName == "find" {
			*looks++
			looked()
		}
	}
	client, err := mongo.Connect(settings.SetMonitor(monitor))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return mongostore.New(client.Database(name), o), looks
}

// Processes that share a bucket and ask for many at once look and swap: no pipeline evaluates their requests.
func TestManyRequestsOfSeveralProcessesAreSwapped(t *testing.T) {
	t.Parallel()
	const calls = 200
	uri, name := testenv.Mongo(t)
	var sent counted
	var stores []*mongostore.Store
	var looks []*int
	for range 2 {
		store, n := looking(t, &sent, uri, name, mongostore.Options{}, func() {})
		stores, looks = append(stores, store), append(looks, n)
	}
	for call := range calls {
		if o := apply(t, stores[call%2], limit, many()...); o.Version != int64(8*(call+1)) {
			t.Fatalf("call %d: version %d", call, o.Version)
		}
	}
	seen := *looks[0] + *looks[1]
	t.Logf("%d looks, %d swaps, %d pipelines", seen, sent.swaps.Load(), sent.pipelines.Load())
	if sent.pipelines.Load() > 4 || sent.swaps.Load() > calls*21/20 || seen > calls {
		t.Errorf("%d looks, %d swaps and %d pipelines for %d calls", seen, sent.swaps.Load(), sent.pipelines.Load(), calls)
	}
}

// Few requests are not worth a look, and a store that never swaps has no use for one.
func TestFewRequestsAreNotLookedFor(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		mode     mongostore.Swapping
		requests []reservations.Request
	}{
		"few":         {mongostore.SwapAdaptive, many()[:3]},
		"never swaps": {mongostore.SwapNever, many()},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			uri, name := testenv.Mongo(t)
			var sent counted
			store, looks := looking(t, &sent, uri, name, mongostore.Options{}.With(c.mode), func() {})
			other := mongostore.New(connect(t, uri).Database(name), mongostore.Options{})
			for range 5 {
				apply(t, store, limit, c.requests...)
				apply(t, other, limit, request(1)...)
			}
			if *looks != 0 {
				t.Errorf("%d looks", *looks)
			}
		})
	}
}

// Where another process writes between the look and the swap, nothing is decided by what was seen: it is looked at once more, then the pipeline decides.
func TestWritesAfterTheLook(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ foreign, looks, pipelines int }{
		"never": {0, 1, 1}, "once": {1, 2, 1}, "always": {1000, 2, 2}, // the first pipeline makes the bucket
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			uri, name := testenv.Mongo(t)
			other := mongostore.New(connect(t, uri).Database(name), mongostore.Options{}.With(mongostore.SwapNever))
			var sent counted
			left := c.foreign
			store, looks := looking(t, &sent, uri, name, mongostore.Options{}, func() {
				if left--; left >= 0 {
					apply(t, other, daily(30), request(1)...)
				}
			})
			apply(t, store, daily(30), request(1)...)
			apply(t, other, daily(30), request(1)...)
			foreign := min(c.foreign, c.looks)
			outcomes, err := store.Apply(t.Context(), daily(30), "", slices.Repeat(request(1), 30))
			if err != nil {
				t.Fatal(err)
			}
			started := 0
			for i, o := range outcomes {
				if want := int64(2 + foreign + i + 1); o.Version != want {
					t.Fatalf("request %d: version %d, want %d", i, o.Version, want)
				}
				if o.Started() {
					started++
				}
			}
			if started != 28-foreign || *looks != c.looks || sent.pipelines.Load() != int64(c.pipelines) {
				t.Errorf("%d started, want %d; %d looks, want %d; %d pipelines, want %d", started, 28-foreign, *looks, c.looks, sent.pipelines.Load(), c.pipelines)
			}
		})
	}
}

// A look that is not answered has asked for nothing.
func TestLostLook(t *testing.T) {
	t.Parallel()
	proxy, uri, name := proxied(t)
	var sent counted
	store := sent.open(t, uri, name, mongostore.Options{})
	other := mongostore.New(connect(t, uri).Database(name), mongostore.Options{})
	apply(t, store, limit, many()...)
	apply(t, other, limit, many()...)
	apply(t, store, limit, many()...)
	proxy.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := store.Apply(ctx, limit, "", many())
	wantUnavailable(t, err, reservations.AppliedNo)
	if store.Remembered() != 0 {
		t.Errorf("%d buckets remembered", store.Remembered())
	}
	proxy.Resume()
	apply(t, store, limit, many()...)
}
