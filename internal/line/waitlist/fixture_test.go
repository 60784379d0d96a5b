package waitlist_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
)

// fixture is the waitlists in a Redis that belongs to the test.
type fixture struct {
	*waitlist.Waitlist

	t      *testing.T
	client *redis.Client
	server *memredis.Server // nil if the test uses a real Redis
	lease  time.Duration
}

// inMemory returns waitlists in memory, within a bubble.
func inMemory(t *testing.T) fixture {
	t.Helper()
	server := memredis.Serve(t)
	f := fixtureOf(t, server.Client(t))
	f.server, f.lease = server, time.Second
	return f
}

// onRedis returns waitlists on a real Redis. A duty lasts an hour, however slow the machine is.
func onRedis(t *testing.T) fixture {
	t.Helper()
	f := fixtureOf(t, connect(t, testenv.Redis(t)))
	f.lease = time.Hour
	return f
}

// connect waits for each answer as long as that takes.
func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.ReadTimeout, options.WriteTimeout, options.DialTimeout = -1, -1, time.Hour
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func fixtureOf(t *testing.T, client *redis.Client) fixture {
	t.Helper()
	return fixture{Waitlist: waitlist.New(client), t: t, client: client}
}

// onBoth runs a test in memory and on a real Redis. The time that passes there must not matter: a promoted task goes
// back to its place after five seconds.
func onBoth(t *testing.T, test func(t *testing.T, f fixture)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, inMemory(t)) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, onRedis(t))
	})
}

// inTime runs a test in memory, and in the night on a real Redis.
func inTime(t *testing.T, test func(t *testing.T, f fixture)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, inMemory(t)) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		night.Only(t, "the tasks that it promotes go back after five seconds")
		test(t, onRedis(t))
	})
}

// pass lets time pass in memory.
func (fixture) pass(d time.Duration) { <-time.After(d) } //gate:ok called in bubbles, and by tests of the night

// duty is that of a process which keeps its duty for the lease of the fixture.
func (f fixture) duty(id string) waitlist.Duty {
	d := duty(id)
	d.Lease = f.lease
	return d
}

// keys returns the keys in Redis, sorted.
func (f fixture) keys() []string {
	f.t.Helper()
	return slices.Sorted(slices.Values(f.client.Keys(f.t.Context(), "*").Val()))
}

func (f fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func task(id string) waitlist.Task { return waitlist.Task{Queue: "default", ID: id} }

func tasks(ids ...string) (all []waitlist.Task) {
	for _, id := range ids {
		all = append(all, task(id))
	}
	return all
}

func ids[T any](all []T, of func(T) waitlist.Task) (found []string) {
	for _, one := range all {
		found = append(found, of(one).ID)
	}
	return found
}

func self(t waitlist.Task) waitlist.Task { return t }

func waiting(w waitlist.Waiting) waitlist.Task { return w.Task }

// entry is a task of the bucket "openai" with a cost of one second.
func entry(id string) waitlist.Entry {
	return waitlist.Entry{
		Task: task(id), Bucket: "openai", Turns: class.Turns{Cost: 1}, Tokens: map[string]float64{"requests": 1},
	}
}

func entries(ids ...string) (all []waitlist.Entry) {
	for _, id := range ids {
		all = append(all, entry(id))
	}
	return all
}

func duty(id string) waitlist.Duty {
	return waitlist.Duty{
		ID: id, Rest: 5 * time.Second, Lease: time.Second, Heads: 256, Promoted: 256,
	}
}

func (f fixture) join(entries ...waitlist.Entry) {
	f.t.Helper()
	_, err := f.Join(f.t.Context(), waitlist.Reported{}, entries...)
	f.check(err)
}

// look looks as the process "me".
func (f fixture) look(paused ...string) waitlist.Look {
	f.t.Helper()
	look, err := f.Look(f.t.Context(), f.duty("me"), paused)
	f.check(err)
	if !look.OnDuty {
		f.t.Fatal("not on duty")
	}
	return look
}

// due looks and returns the only due bucket.
func (f fixture) due(paused ...string) waitlist.Due {
	f.t.Helper()
	look := f.look(paused...)
	if len(look.Due) != 1 {
		f.t.Fatalf("%d buckets are due, want one: %+v", len(look.Due), look.Due)
	}
	return look.Due[0]
}

// promote promotes tasks of a due bucket, and plans the next look for a minute later.
func (f fixture) promote(due waitlist.Due, ids ...string) []string {
	f.t.Helper()
	plan := waitlist.Plan{Bucket: due.Bucket, Planned: due.Planned, Promote: tasks(ids...), Next: time.Minute}
	promoted, onDuty, err := f.Promote(f.t.Context(), "me", []waitlist.Plan{plan})
	f.check(err)
	if !onDuty {
		f.t.Fatal("not on duty")
	}
	return idsOf(promoted)
}

func idsOf(all []waitlist.Task) []string { return ids(all, self) }

func (f fixture) list(bucket string) waitlist.List {
	f.t.Helper()
	l, err := f.List(f.t.Context(), bucket)
	f.check(err)
	return l
}

func (f fixture) arrive(id string, buckets ...string) waitlist.Arrived {
	f.t.Helper()
	found, err := f.Arrive(f.t.Context(), []waitlist.Arrival{{Task: task(id), Buckets: buckets}})
	f.check(err)
	return found[0]
}

// sooner makes a look at the bucket "openai" due now.
func (f fixture) sooner() {
	f.t.Helper()
	f.report(waitlist.Answer{Bucket: "openai", Sooner: true})
}

func (f fixture) report(answer waitlist.Answer, begun ...string) {
	f.t.Helper()
	f.check(f.Report(f.t.Context(), waitlist.Reported{Answers: []waitlist.Answer{answer}, Begun: tasks(begun...)}))
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s: -want +got\n%s", what, d)
	}
}
