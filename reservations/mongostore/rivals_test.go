package mongostore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// daily is a limit of one token a day: nothing comes back while a test runs.
func daily(capacity float64) reservations.Limit {
	return reservations.Limit{Name: "daily", Meters: []reservations.Meter{
		{Name: "m", Rate: 1, Period: 24 * time.Hour, Capacity: capacity},
	}}
}

// sent counts the commands of a client. Before, where it is set, is called before each command leaves. Repeats has each
// update count as one that the driver repeated. A hasty client looks for a server for as long as a client of Connect.
type sent struct {
	reads, writes atomic.Int64
	before        func(*event.CommandStartedEvent)
	repeats       bool
	hasty         bool
}

func (c *sent) all() int64 { return c.reads.Load() + c.writes.Load() }

// open returns a store with a client of its own, as another process has it.
func (c *sent) open(t *testing.T, uri, name string) *mongostore.Store {
	t.Helper()
	settings, err := mongostore.ClientOptions(uri)
	if err != nil {
		t.Fatal(err)
	}
	if !c.hasty {
		testenv.Patient(settings)
	}
	ours := settings.Monitor
	started := func(ctx context.Context, e *event.CommandStartedEvent) {
		ours.Started(ctx, e)
		if c.repeats && e.CommandName == "findAndModify" {
			ours.Started(ctx, e)
		}
		switch e.CommandName {
		case "find", "aggregate":
			c.reads.Add(1)
		case "findAndModify", "insert":
			c.writes.Add(1)
		}
		if c.before != nil {
			c.before(e)
		}
	}
	client, err := mongo.Connect(settings.SetMonitor(&event.CommandMonitor{Started: started}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return mongostore.New(client.Database(name), mongostore.Options{}).WithPatience(time.Minute)
}

func apply(
	t *testing.T, store reservations.Store, limit reservations.Limit, requests ...bucket.Request,
) bucket.Answer {
	t.Helper()
	outcomes, err := tryApply(t, store, limit, requests)
	if err != nil || len(outcomes) != len(requests) {
		t.Fatalf("%d outcomes, %v", len(outcomes), err)
	}
	return outcomes[len(outcomes)-1]
}

// tryApply applies requests, and again where nothing was applied: a machine that stalls finds no server in time.
func tryApply(
	t *testing.T, store reservations.Store, limit reservations.Limit, requests []bucket.Request,
) (outcomes []bucket.Answer, err error) {
	t.Helper()
	for range 30 {
		outcomes, err = bucket.Apply(t.Context(), store, bucket.Rules(limit), "", requests)
		if u, ok := errors.AsType[*bucket.UnavailableError](err); !ok || u.Applied != bucket.AppliedNo {
			break
		}
	}
	return outcomes, err
}

// steadyClock returns a clock for stores that stands still: with the server's clock, a store reads again after a second
// without a call.
func steadyClock() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

func TestLoneProcessSendsOneCommandACall(t *testing.T) {
	t.Parallel()
	const calls = 200
	uri, name := testenv.Mongo(t)
	var c sent
	store := c.open(t, uri, name).WithClock(steadyClock())
	for i := range int64(calls) {
		if o := apply(t, store, limit, request(1)...); o.Bucket.Version != i+1 {
			t.Fatalf("call %d: version %d", i, o.Bucket.Version)
		}
	}
	if c.writes.Load() != calls || c.reads.Load() > 5 {
		t.Errorf("%d reads and %d writes for %d calls", c.reads.Load(), c.writes.Load(), calls)
	}
}

// Two processes that do not compete send two commands a call. A swap in vain comes on top for a process that wrote
// twice.
func TestProcessesInTurnSendFewCommands(t *testing.T) {
	t.Parallel()
	const calls = 200
	uri, name := testenv.Mongo(t)
	for what, next := range map[string]func(call int) int{
		"in turn":     func(call int) int { return call % 2 },
		"two each":    func(call int) int { return call / 2 % 2 },
		"twenty each": func(call int) int { return call / 20 % 2 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var c sent
			now := steadyClock()
			stores := []*mongostore.Store{c.open(t, uri, name).WithClock(now), c.open(t, uri, name).WithClock(now)}
			l := limit
			l.Name = strings.ReplaceAll(what, " ", "-")
			for call := range calls {
				if o := apply(t, stores[next(call)], l, request(1)...); o.Bucket.Version != int64(call+1) {
					t.Fatalf("call %d: version %d", call, o.Bucket.Version)
				}
			}
			if c.all() > calls*5/2+10 {
				t.Errorf("%d reads and %d writes for %d calls", c.reads.Load(), c.writes.Load(), calls)
			}
		})
	}
}

// Processes that compete start exactly what is there, and no version counts two changes.
func TestRivalsShareABucket(t *testing.T) {
	t.Parallel()
	const capacity, processes, callers, times = 300, 6, 4, 20
	uri, name := testenv.Mongo(t)
	var c sent
	var mu sync.Mutex // guards versions
	var versions []int64
	var started atomic.Int64
	var running sync.WaitGroup
	for range processes {
		store := c.open(t, uri, name)
		for range callers {
			running.Go(func() {
				for range times {
					outcomes, err := tryApply(t, store, daily(capacity), request(1))
					if err != nil {
						t.Error(err)
						return
					}
					if outcomes[0].Started() {
						started.Add(1)
					}
					mu.Lock()
					versions = append(versions, outcomes[0].Bucket.Version)
					mu.Unlock()
				}
			})
		}
	}
	running.Wait()
	store := mongostore.New(connect(t, uri).Database(name), mongostore.Options{})
	b, _, err := bucket.Read(t.Context(), store, "daily", "")
	if err != nil || b.Version != processes*callers*times || slices.Max(versions) != b.Version {
		t.Errorf("%d versions for %d calls, the largest answer is of %d: %v",
			b.Version, processes*callers*times, slices.Max(versions), err)
	}
	if started.Load() != capacity {
		t.Errorf("%d started, want exactly %d", started.Load(), capacity)
	}
}

// A process that always loses gives up, takes its request back and says so. Contention is a fault of one bucket.
func TestContended(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	buckets := connect(t, uri).Database(name).Collection(mongostore.DefaultCollection)
	c := sent{before: func(e *event.CommandStartedEvent) {
		if e.Command.Lookup("query", "tag").Type != bson.TypeInt64 {
			return // no swap
		}
		_, err := buckets.UpdateByID(context.WithoutCancel(t.Context()), "daily", bson.D{
			{Key: "$set", Value: bson.D{{Key: "tag", Value: time.Now().UnixNano()}}},
		})
		if err != nil {
			t.Error(err)
		}
	}}
	store := c.open(t, uri, name).WithPatience(100 * time.Millisecond)
	apply(t, store, daily(5), request(1)...)
	_, err := bucket.Apply(t.Context(), store, bucket.Rules(daily(5)), "", request(1))
	wantUnavailable(t, err, bucket.AppliedNo)
	if !errors.Is(err, bucket.ErrContended) || !errors.Is(err, bucket.ErrBucket) {
		t.Errorf("got %v", err)
	}
	c.before = nil
	if o := apply(t, store, daily(5), request(4)...); !o.Started() || o.Bucket.Version != 2 {
		t.Errorf("after that: %+v", o)
	}
}

// A swap that lost and was repeated by the driver may have been the faster one itself: it is not applied again.
func TestRepeatedSwap(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	other := mongostore.New(connect(t, uri).Database(name), mongostore.Options{})
	apply(t, other, daily(5), request(1)...)
	c := sent{repeats: true}
	c.before = func(e *event.CommandStartedEvent) {
		if e.CommandName == "findAndModify" {
			c.before = nil
			apply(t, other, daily(5), request(1)...)
		}
	}
	_, err := bucket.Apply(t.Context(), c.open(t, uri, name), bucket.Rules(daily(5)), "", request(1))
	wantUnavailable(t, err, bucket.AppliedMaybe)
	if !errors.Is(err, bucket.ErrBucket) {
		t.Errorf("got %v", err)
	}
	if o := apply(t, other, daily(5), request(3)...); !o.Started() || o.Bucket.Version != 3 {
		t.Errorf("after that: %+v", o)
	}
}

// A process that is killed after it has read, or whose answer is lost, leaves the bucket to the others.
func TestCutBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	proxy, through, name := proxied(t)
	uri, _ := testenv.Mongo(t)
	other := mongostore.New(connect(t, uri).Database(name), mongostore.Options{})
	apply(t, other, daily(5), request(1)...)
	c := sent{hasty: true, before: func(e *event.CommandStartedEvent) {
		if e.CommandName == "findAndModify" {
			proxy.Cut()
		}
	}}
	_, err := bucket.Apply(t.Context(), c.open(t, through, name), bucket.Rules(daily(5)), "", request(1))
	wantUnavailable(t, err, bucket.AppliedMaybe, bucket.AppliedNo)
	if errors.Is(err, bucket.ErrBucket) {
		t.Errorf("a store that is away is no fault of a bucket: %v", err)
	}
	if o := apply(t, other, daily(5), request(4)...); !o.Started() || o.Bucket.Version != 2 {
		t.Errorf("another process: %+v", o)
	}
}

// Where the answer to a swap is lost, the next call reads.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	proxy, uri, name := proxied(t)
	var c sent
	store := c.open(t, uri, name)
	wantUnavailable(t, c.swapInSilence(t, proxy, store), bucket.AppliedMaybe)
	reads := c.reads.Load()
	apply(t, store, limit, request(1)...)
	if c.reads.Load() == reads {
		t.Error("swapped what is not known")
	}
}

// swapInSilence has the store send a swap that gets no answer, and returns its error. A call that ends before it sends,
// or that reads first, on a machine that stalls, gets another try.
func (c *sent) swapInSilence(t *testing.T, proxy *testenv.Proxy, store *mongostore.Store) (err error) {
	t.Helper()
	for patience := 300 * time.Millisecond; patience < time.Minute; patience *= 2 {
		for range 3 { // the next call only writes
			apply(t, store, limit, request(1)...)
		}
		proxy.Pause()
		reads, writes := c.reads.Load(), c.writes.Load()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = bucket.Apply(ctx, store, bucket.Rules(limit), "", request(1))
		cancel()
		proxy.Resume()
		if c.reads.Load() == reads && c.writes.Load() > writes {
			return err
		}
	}
	t.Fatalf("no call began with a swap: %v", err)
	return nil
}

// A swap without a read decides a little before the server's clock, never after it, and does not fall behind further.
func TestSwapsFollowTheServersClock(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	var c sent
	store := c.open(t, uri, name)
	buckets := connect(t, uri).Database(name).Collection(mongostore.DefaultCollection)
	var behind, excess []time.Duration
	var took, last time.Duration
	for range 300 {
		before, began := c.reads.Load(), time.Now()
		o := apply(t, store, limit, request(1)...)
		took, last = time.Since(began), took //gate:ok a slow machine widens the bound
		var got struct {
			Clock time.Time `bson:"clock"`
		}
		if err := buckets.FindOne(t.Context(), bson.D{}).Decode(&got); err != nil {
			t.Fatal(err)
		}
		if c.reads.Load() == before {
			now := got.Clock.Add(time.Millisecond) // the server cuts to milliseconds
			behind, excess = append(behind, now.Sub(o.At)), append(excess, now.Sub(o.At)-took-last)
		}
	}
	if len(behind) == 0 {
		t.Fatalf("%d reads, %d writes", c.reads.Load(), c.writes.Load())
	}
	if first := slices.Min(behind); first < 0 {
		t.Errorf("a swap was ahead of the server's clock by %v", -first)
	}
	if night.Part(t, "how far swaps are behind depends on the machine") {
		return
	}
	late := slices.Sorted(slices.Values(excess[len(excess)-min(100, len(excess)):]))
	if median := late[len(late)/2]; median > 30*time.Millisecond {
		t.Errorf("the last swaps were behind by %v more than two calls take", median)
	}
}
