package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// keyed is a task of the bucket "api:KEY". Keys of bad buckets begin with "bad".
type keyed struct {
	Key string `json:"key"`
}

func (keyed) TaskType() string { return "keyed" }

func (k keyed) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Key: k.Key, Tokens: reservations.Tokens{"tokens": 1}}}
}

const (
	contended = "bad contended"
	// contends is how long mongostore tries to swap a contended bucket.
	contends = 3 * time.Second
	// callTimeout is how long a call of the store may last.
	callTimeout = 2 * contends
)

// countedStore counts the calls for each key. Buckets of contended keys fail as in mongostore.
type countedStore struct {
	*mongostore.Store

	mu    sync.Mutex // guards calls
	calls map[string]int
}

func (s *countedStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *countedStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	s.mu.Lock()
	s.calls[key]++
	s.mu.Unlock()
	if !strings.HasPrefix(key, contended) {
		return bucket.Apply(ctx, s.Store, limit, key, requests)
	}
	select {
	case <-time.After(contends):
	case <-ctx.Done():
	}
	return nil, &bucket.UnavailableError{
		Bucket: bucket.Name(limit.Name, key), Applied: bucket.AppliedNo, Err: bucket.ErrContended,
	}
}

func (s *countedStore) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// badWorld is a bundle with buckets in MongoDB, and the log of its worker.
type badWorld struct {
	*bundle

	store   *countedStore
	buckets *mongo.Collection
	worker  *worker.Worker

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// Write implements io.Writer, for logs.
func (w *badWorld) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// logged returns how often the text is in the log.
func (w *badWorld) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

const (
	bucketWarning = "a bucket can't be asked"
	storeWarning  = "the store of the buckets"
)

// badConcurrency is the concurrency of the worker of a badWorld.
const badConcurrency = 20

// newBadWorld returns a world in which the documents of the corrupt keys are not buckets. Its worker is not started.
func newBadWorld(t *testing.T, db *mongo.Database, corrupt ...string) *badWorld {
	t.Helper()
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1e6, Period: time.Second, Capacity: 1e6},
	}}
	w := &badWorld{
		bundle: setupOn(t, testenv.StartRedisServer(t).Addr()), buckets: db.Collection(mongostore.DefaultCollection),
		store: &countedStore{Store: mongostore.New(db, mongostore.Options{}), calls: map[string]int{}},
	}
	if err := w.store.EnsureIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	documents := make([]bson.M, len(corrupt))
	for i, key := range corrupt {
		documents[i] = bson.M{"_id": "api:" + key, "tag": int64(i + 1), "v": int64(1), "at": "yesterday", "meters": "m"}
	}
	if _, err := w.buckets.InsertMany(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	var err error
	w.limiter, err = reservations.New(w.store, []reservations.Limit{limit}, reservations.Config{CallTimeout: callTimeout})
	if err != nil {
		t.Fatal(err)
	}
	w.worker = w.bundle.worker(worker.Config{Concurrency: badConcurrency, Logger: slog.New(slog.NewTextHandler(w, nil))})
	worker.Handle(w.worker, func(context.Context, *worker.Job[keyed]) error { return nil })
	return w
}

// add enqueues n tasks of each key.
func (w *badWorld) add(n int, keys ...string) {
	w.t.Helper()
	var many []tasks.Args
	for range n {
		for _, key := range keys {
			many = append(many, keyed{Key: key})
		}
	}
	if _, err := w.scheduler.EnqueueMany(w.t.Context(), many); err != nil {
		w.t.Fatal(err)
	}
}

// finish waits until n tasks have succeeded.
func (w *badWorld) finish(n int) {
	w.t.Helper()
	for range n {
		if f := receive(w.t, w.finishes); f.Kind != worker.KindSucceeded {
			w.t.Fatalf("finish %+v", f)
		}
	}
}

// asksIn returns the largest number of requests to a failing bucket in d. The pauses between requests grow from 1 to
// 10 seconds.
func asksIn(d time.Duration) (asks int) {
	for at := time.Duration(0); at <= d; at += min(max(at/2, time.Second), 10*time.Second) {
		asks++
	}
	return asks
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, " ", i)
	}
	return all
}

// Tasks of failing buckets cost other tasks only one call each, plus one for each pause of a bucket. Half of them
// have a corrupt document each, a quarter share one, and the others share two contended buckets.
func TestBadBucketsBesideGoodTasks(t *testing.T) {
	t.Parallel()
	all := []int{0, 40, 400}
	if night.Part(t, "all take 40 s") {
		all = []int{40}
	}
	for _, bad := range all { //nolint:paralleltest // their times are compared
		t.Run(strconv.Itoa(bad), func(t *testing.T) {
			const good, goodKeys = 3000, 30
			alone, shared, fought := names("bad alone", bad/2), "bad shared", names(contended, 2)
			w := newBadWorld(t, testenv.Database(t), append(alone, shared)...)
			w.add(1, alone...)
			w.add(bad/4, shared)
			w.add(bad/8, fought...)
			w.add(good/goodKeys, names("good", goodKeys)...)
			began := time.Now()
			w.start(w.worker)
			w.finish(good)
			took := time.Since(began)
			calls, most := w.store.counted(), asksIn(took)
			stalls := took > callTimeout // then a call of a good task may end before its answer
			t.Logf("%d good tasks beside %d bad ones: %v, %d warnings",
				good, bad, took.Round(time.Millisecond), w.logged("level=WARN"))
			sum := 0
			for key, n := range calls {
				switch {
				case !strings.HasPrefix(key, "bad"):
					continue
				case strings.HasPrefix(key, "bad alone") && n > most,
					strings.HasPrefix(key, contended) && n > most+1,
					n > most+badConcurrency:
					t.Errorf("bucket %q was asked %d times in %v", key, n, took)
				}
				sum += n
			}
			deferred := 0
			for range len(w.deferrals) {
				if d := <-w.deferrals; strings.HasPrefix(d.Charge.Key, "bad") {
					deferred++
				} else if !stalls {
					t.Errorf("a good task waits: %+v", d)
				}
			}
			buckets := bad/2 + 3
			if limit := bad + buckets*most; sum > limit || deferred > limit {
				t.Errorf("%d bad tasks: %d calls, %d deliveries, at most %d", bad, sum, deferred, limit)
			}
			if n := w.logged(bucketWarning); n > buckets || bad > 0 && n == 0 {
				t.Errorf("%d warnings of %d buckets", n, buckets)
			}
			if n := w.logged(storeWarning); n > 0 && !stalls {
				t.Errorf("%d warnings of the store", n)
			}
		})
	}
}

// After an operator corrects a document, its tasks run after its pause at the latest. One answer frees all of them.
func TestCorrectedDocumentsRun(t *testing.T) {
	t.Parallel()
	corrupt := names("bad", 3)
	w := newBadWorld(t, testenv.Database(t), corrupt...)
	w.add(10, corrupt...)
	w.start(w.worker)
	for range 3 * 10 {
		receive(t, w.deferrals)
	}
	if _, err := w.buckets.DeleteMany(t.Context(), bson.M{}); err != nil {
		t.Fatal(err)
	}
	before := w.store.counted()
	w.finish(3 * 10)
	for key, n := range w.store.counted() {
		if asked := n - before[key]; asked > 10+1 {
			t.Errorf("bucket %q was asked %d times for ten tasks", key, asked)
		}
	}
	if n := w.logged(bucketWarning); n > len(corrupt) {
		t.Errorf("%d warnings of %d buckets", n, len(corrupt))
	}
}

// An outage of the store is one warning, whatever waits for bad buckets, and good tasks run after it.
func TestStoreAwayBesideBadBuckets(t *testing.T) {
	t.Parallel()
	const goodKeys = 12
	corrupt := names("bad", 20)
	db, proxy := proxied(t)
	w := newBadWorld(t, db, corrupt...)
	w.add(1, corrupt...)
	began := time.Now()
	w.start(w.worker)
	for range corrupt {
		receive(t, w.deferrals)
	}
	proxy.Cut()
	w.add(1, names("good", goodKeys)...)
	for waiting := map[string]bool{}; len(waiting) < goodKeys; {
		if d := receive(t, w.deferrals); !strings.HasPrefix(d.Charge.Key, "bad") {
			waiting[d.Task.ID] = true
		}
	}
	proxy.Restore()
	w.finish(goodKeys)
	most := asksIn(time.Since(began))
	stalls := int(time.Since(began) / callTimeout) // in each, calls of good buckets may end before their answers
	for key, n := range w.store.counted() {
		if strings.HasPrefix(key, "bad") && n > most {
			t.Errorf("bucket %q was asked %d times in %v", key, n, time.Since(began))
		}
	}
	if n := w.logged(bucketWarning); n > len(corrupt)+goodKeys*stalls {
		t.Errorf("%d warnings of %d buckets", n, len(corrupt))
	}
	if n := w.logged(storeWarning + " does not answer"); n < 1 || n > 1+stalls {
		t.Errorf("%d warnings of an outage and %d stalls", n, stalls)
	}
}

// proxied returns a database of its own, behind a proxy.
func proxied(t *testing.T) (*mongo.Database, *testenv.Proxy) {
	t.Helper()
	uri, name := testenv.Mongo(t)
	var proxy *testenv.Proxy
	var client *mongo.Client
	var err error
	for range 5 { // a machine that stalls finds no server in time
		client, err = mongostore.Connect(t.Context(), uri, func(o *options.ClientOptions) {
			proxy = testenv.NewProxy(t, o.Hosts[0])
			o.SetHosts([]string{proxy.Addr()}).SetDirect(true)
		})
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return client.Database(name), proxy
}
