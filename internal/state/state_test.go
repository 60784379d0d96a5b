package state_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
)

// job charges a minute's worth of the limit "api".
type job struct{ Key string }

func (job) TaskType() string { return "job" }

func (j job) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Key: j.Key, Tokens: reservations.Tokens{"requests": 60}}}
}

// world returns a reader, and a queue in which three tasks have places for "api" and two for "api:acme".
func world(t *testing.T) (state.Reader, redis.UniversalClient) {
	t.Helper()
	client := memredis.Start(t)
	limiter, err := reservations.New(memstore.NewAt(time.Now), []reservations.Limit{
		{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("requests", 60)}},
		{Name: "idle", Meters: []reservations.Meter{reservations.PerSecond("tokens", 5)}},
	}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "", "", "acme", "acme"} {
		if _, err := s.Enqueue(t.Context(), job{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return state.Reader{Limiter: limiter, Scheduler: s}, client
}

func TestReadsAllLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, readsAllLimits)
}

func readsAllLimits(t *testing.T) {
	r, _ := world(t)
	all, err := r.Read(t.Context(), "")
	if err != nil || len(all.Limits) != 2 || len(all.Limits[0].Buckets) != 2 || len(all.Limits[1].Buckets) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	api, idle := all.Limits[0].Buckets, all.Limits[1].Buckets[0]
	if api[0].Waiting != 3 || api[1].Key != "acme" || api[1].Waiting != 2 || api[1].Meters[0].Waiting != 120 {
		t.Errorf("api: %+v", api)
	}
	if idle.InUse || idle.Waiting != 0 || idle.EndIn != nil || idle.Meters[0].Level != 5 {
		t.Errorf("idle: %+v", idle)
	}
	one, err := r.Read(t.Context(), "api:acme")
	if err != nil || len(one.Limits) != 1 || one.Limits[0].Buckets[0].Waiting != 2 {
		t.Errorf("one bucket: %+v, %v", one, err)
	}
	if limit, err := r.Limit(t.Context(), "api", 1); err != nil || !limit.More {
		t.Errorf("one waitlist of two: %+v, %v", limit, err)
	}
}

// The waitlists of shards add up, and the longest time counts.
func TestAddsShards(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	v := reservations.View{
		Limit: "api", Found: true,
		Meters: []reservations.MeterView{{Meter: reservations.PerSecond("requests", 10)}},
	}
	for i := 1; i <= 2; i++ {
		v.Shards = append(v.Shards, reservations.View{
			Limit: "api", Shard: i, Found: true,
			Meters: []reservations.MeterView{{Meter: reservations.PerSecond("requests", 5)}},
		})
	}
	b := state.NewBucket(v)
	for i, end := range []time.Duration{4 * time.Second, 2 * time.Second} {
		b = b.With(dispatcher.Waitlist{End: at.Add(end), List: waitlist.List{
			Bucket: fmt.Sprintf("api#%d", v.Shards[i].Shard), Waiting: 10 * (i + 1), Now: at,
			Tokens: reservations.Tokens{"requests": 7},
		}})
	}
	if b.Waiting != 30 || *b.EndIn != 4 || b.Meters[0].Waiting != 14 {
		t.Errorf("the sum: %+v", b)
	}
	if b.Shards[0].Waiting != 10 || b.Shards[1].Waiting != 20 || *b.Shards[1].EndIn != 2 {
		t.Errorf("shards: %+v", b.Shards)
	}
}

// A limit that its provider has stopped has no expected end: people have to act first.
func TestAStoppedLimitHasNoEnd(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for why, known := range map[reservations.Reason]bool{
		"": true, reservations.ReasonLimit: true, reservations.ReasonQuota: false, reservations.ReasonKey: false,
	} {
		b := state.NewBucket(reservations.View{Limit: "api", Found: true, Refusing: why})
		b = b.With(dispatcher.Waitlist{End: at.Add(time.Second), List: waitlist.List{Bucket: "api", Waiting: 3, Now: at}})
		if b.Waiting != 3 || (b.EndIn != nil) != known {
			t.Errorf("%q: %+v", why, b)
		}
	}
}

// No end is expected while no live worker takes from the queue of a waiting task: a worker has to come first. The queue
// of direct callers needs none.
func TestAnUnservedQueueHasNoEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, anUnservedQueueHasNoEnd)
}

func anUnservedQueueHasNoEnd(t *testing.T) {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	b := state.NewBucket(reservations.View{Limit: "api", Found: true})
	b = b.With(dispatcher.Waitlist{Unserved: []string{"slow"}, List: waitlist.List{Bucket: "api", Waiting: 3, Now: at}})
	b = b.With(dispatcher.Waitlist{End: at.Add(time.Second), List: waitlist.List{Bucket: "api", Waiting: 3, Now: at}})
	if b.EndIn != nil || len(b.Unserved) != 1 {
		t.Errorf("%+v", b)
	}
	// The tasks of world wait in a queue that no worker takes from.
	reader, _ := world(t)
	read, err := reader.Read(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	waiting := 0
	for _, l := range read.Limits {
		for _, b := range l.Buckets {
			if waiting += b.Waiting; b.Waiting > 0 && (b.EndIn != nil || len(b.Unserved) != 1) {
				t.Errorf("%+v", b)
			}
		}
	}
	if waiting == 0 {
		t.Error("no task waits")
	}
}

func TestReadsQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, readsQueues)
}

func readsQueues(t *testing.T) {
	_, client := world(t)
	inspector := asynq.NewInspectorFromRedisClient(client)
	if err := inspector.PauseQueue("default"); err != nil {
		t.Fatal(err)
	}
	queues, err := state.Queues(inspector)
	if err != nil {
		t.Fatal(err)
	}
	of := cmpopts.IgnoreFields(asynq.QueueInfo{}, "MemoryUsage", "Timestamp")
	want := []*asynq.QueueInfo{{Queue: "default", Paused: true, Scheduled: 5, Size: 5}}
	if d := cmp.Diff(want, queues, of); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestReadsTheDispatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, readsTheDispatcher)
}

func readsTheDispatcher(t *testing.T) {
	r, client := world(t)
	if d, err := inside.Of(r.Scheduler).OnDuty(t.Context()); err != nil || d.Dispatcher != "" || d.Now.IsZero() {
		t.Errorf("before one runs: %+v, %v", d, err)
	}
	duty := map[string]any{"id": "one", "until": time.Now().Add(time.Minute).UnixMicro()}
	if err := client.HSet(t.Context(), "headway:{wait}:dispatcher", duty).Err(); err != nil {
		t.Fatal(err)
	}
	if d, err := inside.Of(r.Scheduler).OnDuty(t.Context()); err != nil || d.Dispatcher != "one" || !d.Until.After(d.Now) {
		t.Errorf("on duty: %+v, %v", d, err)
	}
	duty["until"] = time.Now().Add(-time.Second).UnixMicro()
	if err := client.HSet(t.Context(), "headway:{wait}:dispatcher", duty).Err(); err != nil {
		t.Fatal(err)
	}
	if d, err := inside.Of(r.Scheduler).OnDuty(t.Context()); err != nil || d.Dispatcher != "" {
		t.Errorf("after its time: %+v, %v", d, err)
	}
}
