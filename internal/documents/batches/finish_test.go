package batches_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
)

func attempt(n int) batches.Attempt {
	return batches.Attempt{
		At: time.UnixMilli(int64(1000 * n)).UTC(), StatusCode: 500,
		Error: fmt.Sprint("broken ", n),
	}
}

func find(t *testing.T, s *batches.Store, line int) batches.Result {
	t.Helper()
	r, ok, err := s.Find(t.Context(), "b", line)
	if err != nil || !ok {
		t.Fatalf("line %d: %v %v", line, ok, err)
	}
	return r
}

// The first result of a request stays, whatever is written later.
func TestWrittenOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if r, ok, err := s.Find(t.Context(), "b", 1); ok || err != nil {
		t.Fatalf("%+v %v", r, err)
	}
	for _, n := range []int{1, 2, 1} { // the second 1 is a repeated call
		if err := s.Attempt(t.Context(), "b", 1, "request-1", attempt(n)); err != nil {
			t.Fatal(err)
		}
	}
	r, ok, err := s.Find(t.Context(), "b", 1)
	if diff := cmp.Diff(batches.Result{
		Batch: "b", Line: 1, CustomID: "request-1",
		Attempts: []batches.Attempt{attempt(1), attempt(2)},
	}, r); ok || err != nil || diff != "" {
		t.Errorf("before its end: %v %v %s", ok, err, diff)
	}
	want := answered("b", 1, 3000)
	want.Attempts = []batches.Attempt{attempt(2), attempt(3)}
	want.Finished = time.UnixMilli(1_700_000_000_123).UTC()
	want.Request = []byte("{}")
	if err := s.Finish(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Attempts = []batches.Attempt{attempt(1), attempt(2), attempt(3)}
	want.Request = nil // is stored for failed requests only
	if diff := cmp.Diff(want, find(t, s, 1)); diff != "" {
		t.Error(diff)
	}
	if err := s.Attempt(t.Context(), "b", 1, "other", attempt(9)); err != nil {
		t.Error(err)
	}
	for _, other := range []batches.Result{failed("b", 1), answered("b", 1, 10)} {
		if err := s.Finish(t.Context(), other); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(want, find(t, s, 1)); diff != "" {
		t.Error("changed: " + diff)
	}
}

func TestFailedResults(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	when := time.UnixMilli(5).UTC()
	for line, want := range map[int]batches.Result{
		1: {
			CustomID: "no answer", Failure: &batches.Failure{Code: "batch_cancelled", Message: "m"},
			Request: []byte(`{"a":1}`),
		},
		2: {
			CustomID: "4xx", Response: &batches.Response{StatusCode: 404, Body: []byte("gone\x00\xff")},
			Request: []byte(strings.Repeat(`{"a":1}`, 1000)),
		},
		3: {CustomID: "empty", Response: &batches.Response{StatusCode: 500}},
		4: {
			CustomID: "200 but", Response: &batches.Response{StatusCode: 200, Body: []byte("{}")},
			Failure: &batches.Failure{Code: "c"},
		},
	} {
		want.Batch, want.Line, want.Finished = "b", line, when
		if err := s.Finish(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got := find(t, s, line)
		if diff := cmp.Diff(want, got); diff != "" || !got.Failed() {
			t.Error(line, diff)
		}
	}
	if c, err := s.Counts(t.Context(), "b"); err != nil || c.Failed != 4 || c.Done != 0 || c.Retried != 0 ||
		!c.First.Equal(when) || !c.Last.Equal(when) {
		t.Errorf("%+v %v", c, err)
	}
}

func random(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(1, uint64(size)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// A body of any size is read as it was written, or is replaced by a failure with the reason.
func TestSizes(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	s := batches.New(db, batches.Options{})
	for line, c := range map[int]struct {
		body  []byte
		kind  bson.Type
		limit int // of the stored size
		lost  bool
	}{
		1: {[]byte(`{"small":"ä"}`), bson.TypeString, 100, false},
		2: {completion(2, 4000), bson.TypeBinary, 3500, false},
		3: {completion(3, 1_000_000), bson.TypeBinary, 600_000, false},
		4: {random(3000), bson.TypeBinary, 3000, false},
		5: {random(13 << 20), bson.TypeBinary, 13 << 20, false},
		6: {random(17 << 20), 0, 0, true},
		7: {bytes.Repeat([]byte("ab"), 20<<20), bson.TypeBinary, 100_000, false},
	} {
		r := batches.Result{Batch: "b", Line: line, CustomID: "c", Response: &batches.Response{
			StatusCode: 200,
			RequestID:  "r", Body: c.body,
		}, Request: []byte("{}")}
		if err := s.Finish(t.Context(), r); err != nil {
			t.Fatal(line, err)
		}
		got := find(t, s, line)
		if c.lost {
			if got.Failure == nil || got.Failure.Code != batches.CodeTooLarge || !strings.Contains(got.Failure.Message,
				strconv.Itoa(len(c.body))) ||
				got.Response == nil || got.Response.RequestID != "r" || string(got.Request) != "{}" || !got.Failed() {
				t.Errorf("%d: %+v", line, got)
			}
			continue
		}
		if !bytes.Equal(got.Response.Body, c.body) || got.Failed() {
			t.Errorf("%d: another body, of %d bytes: %+v", line, len(got.Response.Body), got.Failure)
		}
		body := stored(t, db, "results", fmt.Sprintf("b/%09d", line)).Body.Lookup("body")
		if body.Type != c.kind || len(body.Value) > c.limit+20 {
			t.Errorf("%d: stored as %s in %d bytes", line, body.Type, len(body.Value))
		}
	}
	// Body and request fit alone, but not together: the answer stays.
	r := batches.Result{
		Batch: "b", Line: 8, Response: &batches.Response{StatusCode: 400, Body: random(8 << 20)},
		Request: random(9 << 20),
	}
	if err := s.Finish(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := find(t, s, 8); !bytes.Equal(got.Response.Body, r.Response.Body) || got.Request != nil ||
		got.Failure == nil || !strings.Contains(got.Failure.Message, "request") {
		t.Errorf("%+v", got.Failure)
	}
}

func TestFinishMany(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	if outcomes := s.FinishMany(t.Context(), nil); len(outcomes) != 0 {
		t.Error(outcomes)
	}
	if err := s.Attempt(t.Context(), "b", 2, "request-2", attempt(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(t.Context(), answered("b", 3, 10)); err != nil {
		t.Fatal(err)
	}
	results := []batches.Result{
		answered("b", 1, 10), answered("b", 2, 10), answered("b", 3, 10), answered("b", 0, 10),
		answered("b", 1, 10), answered("c", 1, 10),
	}
	for i := range results {
		results[i].Response.RequestID = fmt.Sprint("given ", i)
	}
	for i, err := range s.FinishMany(t.Context(), results) {
		if i != 3 && err != nil || i == 3 && !errors.Is(err, batches.ErrLine) {
			t.Errorf("%d: %v", i, err)
		}
	}
	for line, want := range map[int][]string{ // the server chooses the order within a round trip
		1: {"given 0", "given 4"}, 2: {"given 1"}, 3: {"req_3"},
	} {
		if r := find(t, s, line); !slices.Contains(want, r.Response.RequestID) || r.Usage.Used != 200 {
			t.Errorf("line %d: %+v", line, r)
		}
	}
}

// Many processes finish, and fail, the same lines at the same time. The result of each line is of one call,
// and is stored before a call returns. Some callers cancel in the middle.
func TestFleet(t *testing.T) {
	t.Parallel()
	const lines, fleet = 60, 64
	var firsts [lines + 1]atomic.Int32
	var winner [lines + 1]atomic.Int32
	var group sync.WaitGroup
	db := newDocuments(t)
	stores := make([]*batches.Store, 4)
	finishes := make([]func(context.Context, batches.Result) error, 4)
	waits := make([]func(), 4)
	for i := range stores {
		stores[i] = batches.New(db, batches.Options{})
		finishes[i], waits[i] = together(stores[i])
	}
	for w := range fleet {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 7))
			s := stores[w%4]
			for _, i := range random.Perm(lines) {
				line := i + 1
				if random.IntN(3) == 0 {
					if err := s.Attempt(t.Context(), "b", line, fmt.Sprint("request-", line), attempt(w)); err != nil {
						t.Error(err)
					}
				}
				r := answered("b", line, 10)
				r.Response.RequestID = strconv.Itoa(w)
				ctx, cancel := t.Context(), func() {}
				if w%8 == 0 {
					ctx, cancel = context.WithCancel(ctx)
					group.Go(func() { yield(random.IntN(1000)); cancel() })
				}
				finish := s.Finish
				if w%2 == 0 {
					finish = finishes[w%4]
				}
				err := finish(ctx, r)
				cancel()
				if err != nil && w%8 != 0 {
					t.Error(err)
				}
				if err != nil {
					continue
				}
				first, err := own(t.Context(), s, line, r.Response.RequestID)
				if err != nil {
					t.Error(err)
				}
				if first {
					firsts[line].Add(1)
					winner[line].Store(int32(w))
				}
			}
		})
	}
	group.Wait()
	for _, wait := range waits {
		wait()
	}
	for line := 1; line <= lines; line++ {
		r := find(t, stores[0], line)
		byGone := r.Response.RequestID
		switch n := firsts[line].Load(); {
		case n > 1:
			t.Errorf("line %d: %d firsts", line, n)
		case n == 1 && r.Response.RequestID != strconv.Itoa(int(winner[line].Load())):
			t.Errorf("line %d: of %s, but the first was %d", line, r.Response.RequestID, winner[line].Load())
		case n == 0:
			var w int
			// a cancelled caller may have been the first without an answer
			if _, err := fmt.Sscan(byGone, &w); err != nil || w%8 != 0 {
				t.Errorf("line %d: no call was the first, of %s", line, byGone)
			}
		}
	}
	if c, err := stores[0].Counts(t.Context(), "b"); err != nil || c.Done != lines || c.Failed != 0 ||
		c.Used != 200*lines {
		t.Errorf("%+v %v", c, err)
	}
}

// yield lets other goroutines run, some times.
func yield(times int) {
	for range times {
		runtime.Gosched()
	}
}

// A line with an attempt and a result at the same time has both in the end, or the result alone.
func TestAttemptMeetsFinish(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for line := 1; line <= 100; line++ {
		var group sync.WaitGroup
		group.Go(func() {
			if err := s.Attempt(t.Context(), "b", line, "a", attempt(line)); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if err := s.Finish(t.Context(), answered("b", line, 10)); err != nil {
				t.Errorf("line %d: %v", line, err)
			}
		})
		group.Wait()
		find(t, s, line)
	}
}

// While the database is down, nothing is stored and the error matches ErrUnavailable. Later the same call stores the
// result.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	db, proxy := throughProxy(t)
	s := batches.New(mongodocs.New(db), batches.Options{})
	if err := s.Finish(t.Context(), answered("b", 1, 10)); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) //gate:ok meant to expire
	defer cancel()
	err := s.Finish(ctx, answered("b", 2, 10))
	if !errors.Is(err, batches.ErrUnavailable) || !strings.Contains(err.Error(), `line 2 of batch "b"`) {
		t.Error(err)
	}
	for _, err := range s.All(ctx, "b") {
		if !errors.Is(err, batches.ErrUnavailable) {
			t.Error(err)
		}
	}
	_, countErr := s.Counts(ctx, "b")
	_, finishedErr := s.Lines(ctx, "b", 1, 2)
	_, _, findErr := s.Find(ctx, "b", 1)
	_, _, openErr := s.Open(ctx, batches.Batch{ID: "b", Lines: 1})
	for _, err := range []error{
		countErr, finishedErr, findErr, openErr, s.Cancel(ctx, "b"),
		s.Attempt(ctx, "b", 2, "", attempt(1)),
	} {
		if !errors.Is(err, batches.ErrUnavailable) {
			t.Error(err)
		}
	}
	proxy.Restore()
	for err = batches.ErrUnavailable; errors.Is(err, batches.ErrUnavailable); { // connections of before may be broken
		err = s.Finish(t.Context(), answered("b", 2, 10))
	}
	if err != nil {
		t.Error(err)
	}
}

func throughProxy(t *testing.T) (*mongo.Database, *testenv.Proxy) {
	t.Helper()
	uri, name := testenv.Mongo(t)
	var proxy *testenv.Proxy
	client, err := mongostore.Connect(t.Context(), uri, func(o *options.ClientOptions) {
		proxy = testenv.NewProxy(t, o.Hosts[0])
		o.SetHosts([]string{proxy.Addr()}).SetDirect(true)
		testenv.Patient(o)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return client.Database(name), proxy
}
