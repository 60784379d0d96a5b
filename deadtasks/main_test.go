package deadtasks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/packed"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/redisstore"
)

func TestMain(m *testing.M) {
	packed.Prepare()
	goleak.VerifyTestMain(m)
}

// inMongoDB begins the names of tests that have their records in MongoDB, see TestInMongoDB.
const inMongoDB = "TestInMongoDB/"

// inBubble runs a test in a bubble, with records and tasks in a Redis in memory. In TestInMongoDB, it runs outside of
// bubbles, with real services.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if strings.HasPrefix(t.Name(), inMongoDB) {
		test(t)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(died(0).At.Add(24 * time.Hour))) // a bubble begins in the year 2000
		test(t)
	})
}

// newDocuments returns an empty store of documents.
func newDocuments(t *testing.T) documents.Store {
	t.Helper()
	if strings.HasPrefix(t.Name(), inMongoDB) {
		return mongostore.Documents(testenv.Database(t))
	}
	return redisstore.Documents(newQueue(t).client)
}

func newStore(t *testing.T) *deadtasks.Store {
	t.Helper()
	s := deadtasks.New(newDocuments(t), deadtasks.Options{})
	if err := s.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// change changes the fields of a stored head, or stores one.
func change(t *testing.T, in documents.Store, key string, by func(head bson.M, d *documents.Document)) {
	t.Helper()
	err := documents.UpdateOne(t.Context(), in.Collection("dead"), documents.Change{
		Key: key, Apply: func(d *documents.Document) (_ bool, err error) {
			head := bson.M{}
			if d.Head != nil {
				err = bson.Unmarshal(d.Head, &head)
			}
			if by(head, d); err == nil {
				d.Head, err = bson.Marshal(head)
			}
			return true, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// queue is a Redis that belongs to one test.
type queue struct {
	client    redis.UniversalClient
	inspector *asynq.Inspector
}

func newQueue(t *testing.T) queue {
	t.Helper()
	var client *redis.Client
	if strings.HasPrefix(t.Name(), inMongoDB) {
		o, err := redis.ParseURL(testenv.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		client = redis.NewClient(o)
		t.Cleanup(func() { _ = client.Close() })
	} else {
		client = memredis.Serve(t).Client(t)
	}
	return queue{client: client, inspector: asynq.NewInspectorFromRedisClient(client)}
}

// state returns the state of a task in the queue default, or zero if there is no such task.
func (q queue) state(t *testing.T, id string) asynq.TaskState {
	t.Helper()
	info, err := q.inspector.GetTaskInfo("default", id)
	if err != nil {
		return 0
	}
	return info.State
}

// died is a dead task.
func died(n int) deadletter.Task {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
	return deadletter.Task{
		ID: fmt.Sprintf("task-%d", n), Queue: "default", Type: "mail", Payload: fmt.Appendf(nil, `{"n":%d}`, n),
		Headers: map[string]string{"headway-version": "1", "a.b$": "<é>"}, MaxRetry: 23,
		Timeout: time.Minute, Retention: time.Hour, At: at, Cause: deadletter.CauseRetries,
		Last: deadletter.Attempt{
			Number: 4, At: at, Elapsed: time.Second, Error: fmt.Sprintf("broken %d", n%2),
			Worker: "host:1",
		},
	}
}

func record(t *testing.T, s *deadtasks.Store, dead ...deadletter.Task) {
	t.Helper()
	if err := s.Recorder().Record(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
}

func whole(t *testing.T, s *deadtasks.Store, f deadtasks.Filter) (all []deadtasks.Task) {
	t.Helper()
	f.Payloads = true
	for task, err := range s.List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, task)
	}
	return all
}

// only returns the only record of a task, in any state.
func only(t *testing.T, s *deadtasks.Store, id string) deadtasks.Task {
	t.Helper()
	all := whole(t, s, deadtasks.Filter{ID: id, AnyState: true})
	if len(all) != 1 {
		t.Fatalf("%d records of %s: %+v", len(all), id, all)
	}
	return all[0]
}

func requeue(t *testing.T, s *deadtasks.Store, q queue, f deadtasks.Filter) deadtasks.Report {
	t.Helper()
	r, err := s.Requeue(t.Context(), q.client, f, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func refOf(d deadletter.Task) deadletter.Ref {
	return deadletter.Ref{ID: d.ID, Queue: d.Queue, Type: d.Type}
}

func failedAttempt(n int) deadletter.Attempt {
	return deadletter.Attempt{
		Number: n, At: time.Date(2026, 5, 1, 11, n, 0, 0, time.UTC), Elapsed: time.Second,
		Error: fmt.Sprintf("attempt %d", n), Worker: "host:1",
	}
}

func note(t *testing.T, s *deadtasks.Store, task deadletter.Ref, a deadletter.Attempt) {
	t.Helper()
	if err := s.Recorder().Failed(t.Context(), task, a); err != nil {
		t.Fatal(err)
	}
}

func recovered(t *testing.T, s *deadtasks.Store, task deadletter.Ref) {
	t.Helper()
	if err := s.Recorder().Recovered(context.WithoutCancel(t.Context()), task); err != nil {
		t.Fatal(err)
	}
}
