package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/estimates/keeper"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process returns the learner and keeper of one process of a fleet.
func process(t *testing.T, in documents.Store, log slog.Handler) (*estimates.Learner, *keeper.Keeper) {
	t.Helper()
	learner, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	return learner, keeper.New(in, learner, time.Millisecond, slog.New(log))
}

// newDocuments returns an empty store of documents: MongoDB, or Redis in TestInRedis.
func newDocuments(t *testing.T) documents.Store {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestInRedis/") {
		return mongodocs.New(testenv.Database(t))
	}
	client := memredis.Start(t)
	return redisdocs.New(client)
}

// TestInRedis runs the tests of this package on the Redis of `headway dev`.
func TestInRedis(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){ //nolint:paralleltest // each test calls Parallel
		"AFleetLearnsTogether": TestAFleetLearnsTogether, "AFleetForgets": TestAFleetForgets,
		"WhatCannotBeSharedIsKept":   TestWhatCannotBeSharedIsKept,
		"FewLargeRequestsSayNothing": TestFewLargeRequestsSayNothing,
		"DocumentsThatMakeNoSense":   TestDocumentsThatMakeNoSense,
		"CountsBeyondAllMeasure":     TestCountsBeyondAllMeasure, "Run": TestRun,
	} {
		t.Run(name, test)
	}
}

// store stores the head of a document.
func store(t *testing.T, in documents.Store, key string, head bson.M) {
	t.Helper()
	err := documents.UpdateOne(t.Context(), in.Collection("estimates"), documents.Change{
		Key: key, Apply: func(d *documents.Document) (_ bool, err error) {
			d.Group, d.At = "called", time.Now()
			d.Head, err = bson.Marshal(head)
			return true, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sample(used float64) estimates.Sample {
	return estimates.Sample{
		Limit: "open/ai", Model: "gpt-5.$ü", Estimated: estimates.Tokens{
			Input:  10,
			Output: 100,
		}, Reserved: 110, Used: estimates.Tokens{Input: 10, Output: used},
	}
}

func TestAFleetLearnsTogether(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	const processes, rounds = 4, 10
	var group sync.WaitGroup
	for range processes {
		learner, k := process(t, db, slog.DiscardHandler)
		if err := k.EnsureIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for range rounds {
				for range 5 {
					learner.Observe(sample(30))
				}
				if err := k.Share(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	learner, k := process(t, db, slog.DiscardHandler)
	if err := k.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := learner.Learned()
	if len(all) != 1 || all[0].N != processes*rounds*5 || all[0].Limit != "open/ai" || all[0].Model != "gpt-5.$ü" {
		t.Fatalf("%+v", all)
	}
	if got := all[0]; math.Abs(got.Output/0.3-1) > 0.05 || math.Abs(got.ErrorP50/(110./40)-1) > 0.05 ||
		got.Reserved != 110*got.Used/40 {
		t.Errorf("%+v", got)
	}
}

// All processes drop old generations, and the document stays small.
func TestAFleetForgets(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	one, keepOne := process(t, db, slog.DiscardHandler)
	two, keepTwo := process(t, db, slog.DiscardHandler)
	for i := range 30 {
		used := 90.
		if i >= 20 {
			used = 20
		}
		for range 50 {
			one.Observe(sample(used))
			two.Observe(sample(used))
		}
		for _, k := range []*keeper.Keeper{keepOne, keepTwo} {
			if err := k.Share(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range []*estimates.Learner{one, two} {
		if got := l.Ratios("open/ai", "gpt-5.$ü").Output; math.Abs(got/0.2-1) > 0.05 {
			t.Errorf("learned %v, want 0.2", got)
		}
		if n := l.Learned()[0].N; n < 250 || n > 700 {
			t.Errorf("known of %d", n)
		}
	}
	key := "open%2Fai/gpt-5.$%C3%BC"
	found, err := db.Collection("estimates").Get(t.Context(), []string{key}, false)
	if head := found[key].Head; err != nil || len(head) == 0 || len(head) > 1000 {
		t.Errorf("%d bytes, %v: %v", len(head), err, head)
	}
}

func TestWhatCannotBeSharedIsKept(t *testing.T) {
	t.Parallel()
	learner, k := process(t, newDocuments(t), slog.DiscardHandler)
	learner.Observe(sample(30))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Share(ctx); !errors.Is(err, keeper.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	learner.Observe(sample(30))
	if err := k.Share(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := learner.Learned()[0].N; got != 2 || len(learner.Take()) != 0 {
		t.Errorf("known of %d, want 2", got)
	}
}

// One large request counts by its size, but it is one request: no process scales by it.
func TestFewLargeRequestsSayNothing(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	learner, k := process(t, db, slog.DiscardHandler)
	large := sample(1000)
	large.Estimated = estimates.Tokens{Input: 4000, Output: 5000}
	for _, n := range []int{19, 1} {
		for range n {
			learner.Observe(large)
		}
		if err := k.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader, other := process(t, db, slog.DiscardHandler)
		if err := other.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := reader.Ratios(large.Limit, large.Model).Output; (got == 1) != (n == 19) {
			t.Errorf("after %d more: %v", n, got)
		}
	}
}

func TestDocumentsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	store(t, db, "x", bson.M{"current": "text"})
	store(t, db, "a/m", bson.M{"limit": "a", "model": "m", "current": bson.M{
		"n": int64(30), "1_n": 30, "1_100": int32(30), "9_1": 1, "1_9999": 1, "1_-1": 1, "2_7": -5, "later": 1,
	}})
	learner, k := process(t, db, slog.DiscardHandler)
	if err := k.Load(t.Context()); !errors.Is(err, keeper.ErrMalformed) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("got %v", err)
	}
	if all := learner.Learned(); len(all) != 1 || all[0].N != 30 || all[0].Output >= 1 {
		t.Errorf("%+v", all)
	}
}

// Run shares while it runs and when it ends, and logs the learned estimates.
func TestRun(t *testing.T) {
	t.Parallel()
	db := newDocuments(t)
	var log bytes.Buffer
	learner, k := process(t, db, slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.Run(ctx)
	}()
	learner.Observe(sample(30))
	cancel()
	<-ended
	other, reader := process(t, db, slog.DiscardHandler)
	if err := reader.Load(t.Context()); err != nil || len(other.Learned()) != 1 {
		t.Errorf("%+v, %v", other.Learned(), err)
	}
	if text := log.String(); !strings.Contains(text, "estimates have learned") ||
		!strings.Contains(text, "reserved_to_used_p50=") {
		t.Errorf("log %s", text)
	}
}
