package waitlist_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/test/testenv"
)

// fixture is the waitlists in a Redis that belongs to the test.
type fixture struct {
	*waitlist.Waitlist

	t      *testing.T
	client *redis.Client
	server *miniredis.Miniredis // nil if the test uses a real Redis
}

// onMini returns waitlists on miniredis, with a clock that the test advances.
func onMini(t *testing.T) fixture {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	f := fixtureOf(t, &redis.Options{Addr: server.Addr()})
	f.server = server
	return f
}

func onRedis(t *testing.T) fixture {
	t.Helper()
	options, err := redis.ParseURL(testenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	return fixtureOf(t, options)
}

func fixtureOf(t *testing.T, options *redis.Options) fixture {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return fixture{Waitlist: waitlist.New(client), t: t, client: client}
}

func onBoth(t *testing.T, test func(t *testing.T, f fixture)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, onMini(t))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, onRedis(t))
	})
}

// pass advances the clock of miniredis.
func (f fixture) pass(d time.Duration) {
	f.t.Helper()
	now, err := f.client.Time(f.t.Context()).Result()
	f.check(err)
	f.server.SetTime(now.Add(d))
	f.server.FastForward(d)
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
	look, err := f.Look(f.t.Context(), duty("me"), paused)
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
