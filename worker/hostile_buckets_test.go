package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
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
	// contends is how long a store tries to swap a contended bucket.
	contends = 3 * time.Second
)

// badStore counts the calls for each key. Buckets of bad keys can't be asked, as in mongostore: contended ones fail
// after some time, the others have corrupt documents.
type badStore struct {
	*memstore.Store

	mu        sync.Mutex // guards what is below
	calls     map[string]int
	away      bool // the whole store refuses connections
	corrected bool // no document is corrupt
}

func (s *badStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *badStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	fault := &bucket.UnavailableError{Bucket: bucket.Name(limit.Name, key), Applied: bucket.AppliedNo}
	s.mu.Lock()
	s.calls[key]++
	away, corrected := s.away, s.corrected
	s.mu.Unlock()
	<-time.After(time.Millisecond)
	switch {
	case away:
		fault.Err = errors.New("connection refused")
	case strings.HasPrefix(key, contended):
		<-time.After(contends)
		fault.Err = bucket.ErrContended
	case strings.HasPrefix(key, "bad") && !corrected:
		fault.BucketOnly, fault.Err = true, errors.New("the document is corrupt")
	default:
		return bucket.Apply(ctx, s.Store, limit, key, requests)
	}
	return nil, fault
}

func (s *badStore) set(change func(*badStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *badStore) counted() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// badWorld is a bundle on a badStore.
type badWorld struct {
	*bundle

	store  *badStore
	worker *worker.Worker
	log    lines
}

const (
	bucketWarning = "WARN a bucket can't be asked"
	storeWarning  = "WARN the store of the buckets"
)

const (
	// badConcurrency is the concurrency of the worker of a badWorld.
	badConcurrency = 20
	// badTakes is how long its handler takes.
	badTakes = 100 * time.Millisecond
)

// newBadWorld returns a world whose worker is not started.
func newBadWorld(t *testing.T) *badWorld {
	t.Helper()
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1e6, Period: time.Second, Capacity: 1e6},
	}}
	w := &badWorld{
		bundle: setup(t), store: &badStore{Store: memstore.New(), calls: map[string]int{}}, log: newLines(),
	}
	var err error
	w.limiter, err = reservations.New(w.store, []reservations.Limit{limit}, reservations.Config{CallTimeout: 2 * contends})
	if err != nil {
		t.Fatal(err)
	}
	w.worker = w.bundle.worker(worker.Config{Concurrency: badConcurrency, Logger: slog.New(w.log)})
	worker.Handle(w.worker, func(context.Context, *worker.Job[keyed]) error {
		<-time.After(badTakes)
		return nil
	})
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
	for _, bad := range []int{0, 40, 400} {
		t.Run(strconv.Itoa(bad), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const good, goodKeys = 900, 30
				w := newBadWorld(t)
				w.add(1, names("bad alone", bad/2)...)
				w.add(bad/4, "bad shared")
				w.add(bad/8, names(contended, 2)...)
				w.add(good/goodKeys, names("good", goodKeys)...)
				began := time.Now()
				w.start(w.worker)
				w.finish(good)
				took := time.Since(began)
				calls, most := w.store.counted(), asksIn(took)
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
					} else {
						t.Errorf("a good task waits: %+v", d)
					}
				}
				buckets := bad/2 + 3
				if limit := bad + buckets*most; sum > limit || deferred > limit {
					t.Errorf("%d bad tasks: %d calls, %d deliveries, at most %d", bad, sum, deferred, limit)
				}
				if n := w.log.count(bucketWarning); n > buckets || bad > 0 && n == 0 {
					t.Errorf("%d warnings of %d buckets", n, buckets)
				}
				if n := w.log.count(storeWarning); n > 0 {
					t.Errorf("%d warnings of the store", n)
				}
				if took > 10*time.Second { // 4.6 s without bad ones
					t.Errorf("%d good tasks beside %d bad ones: %v", good, bad, took)
				}
			})
		})
	}
}

// After an operator corrects a document, its tasks run after its pause at the latest. One answer frees all of them.
func TestCorrectedDocumentsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		corrupt := names("bad", 3)
		w := newBadWorld(t)
		w.add(10, corrupt...)
		w.start(w.worker)
		for range 3 * 10 {
			receive(t, w.deferrals)
		}
		w.store.set(func(s *badStore) { s.corrected = true })
		corrected, before := time.Now(), w.store.counted()
		w.finish(3 * 10)
		if took := time.Since(corrected); took > 3*time.Second { // pauses are at most two seconds at first
			t.Errorf("the tasks ran after %v", took)
		}
		for key, n := range w.store.counted() {
			if asked := n - before[key]; asked > 10+1 {
				t.Errorf("bucket %q was asked %d times for ten tasks", key, asked)
			}
		}
		if n := w.log.count(bucketWarning); n != len(corrupt) {
			t.Errorf("%d warnings of %d buckets", n, len(corrupt))
		}
	})
}

// An outage of the store is one warning, whatever waits for bad buckets, and good tasks run after it.
func TestStoreAwayBesideBadBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const goodKeys = 12
		corrupt := names("bad", 20)
		w := newBadWorld(t)
		w.add(1, corrupt...)
		began := time.Now()
		w.start(w.worker)
		for range corrupt {
			receive(t, w.deferrals)
		}
		w.store.set(func(s *badStore) { s.away = true })
		w.add(1, names("good", goodKeys)...)
		for waiting := map[string]bool{}; len(waiting) < goodKeys; {
			if d := receive(t, w.deferrals); !strings.HasPrefix(d.Charge.Key, "bad") {
				waiting[d.Task.ID] = true
			}
		}
		<-time.After(time.Minute)
		w.store.set(func(s *badStore) { s.away = false })
		w.finish(goodKeys)
		most := asksIn(time.Since(began))
		for key, n := range w.store.counted() {
			if strings.HasPrefix(key, "bad") && n > most {
				t.Errorf("bucket %q was asked %d times in %v", key, n, time.Since(began))
			}
		}
		if n := w.log.count(bucketWarning); n != len(corrupt) {
			t.Errorf("%d warnings of %d buckets", n, len(corrupt))
		}
		if n := w.log.count(storeWarning + " does not answer"); n != 1 {
			t.Errorf("%d warnings of an outage", n)
		}
	})
}
