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
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/estimates"
	"github.com/headway-go/headway/internal/estimates/keeper"
	"github.com/headway-go/headway/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process returns the learner and keeper of one process of a fleet.
func process(t *testing.T, db *mongo.Database, log slog.Handler) (*estimates.Learner, *keeper.Keeper) {
	t.Helper()
	learner, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	return learner, keeper.New(db, learner, time.Millisecond, slog.New(log))
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
	db := testenv.Database(t)
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
	db := testenv.Database(t)
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
	raw, err := db.Collection(keeper.CollectionDefault).FindOne(t.Context(), bson.D{}).Raw()
	if err != nil || len(raw) > 1000 {
		t.Errorf("%d bytes, %v: %v", len(raw), err, raw)
	}
}

func TestWhatCannotBeSharedIsKept(t *testing.T) {
	t.Parallel()
	learner, k := process(t, testenv.Database(t), slog.DiscardHandler)
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
	db := testenv.Database(t)
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
	db := testenv.Database(t)
	good := bson.D{
		{Key: "_id", Value: "a/m"},
		{Key: "limit", Value: "a"},
		{Key: "model", Value: "m"},
		{Key: "g0", Value: bson.D{
			{Key: "n", Value: int64(30)}, {Key: "1_n", Value: 30}, {Key: "1_100", Value: int32(30)}, {Key: "9_1", Value: 1}, {
				Key:   "1_9999",
				Value: 1,
			}, {Key: "1_-1", Value: 1}, {Key: "2_7", Value: -5}, {Key: "later", Value: 1},
		}},
	}
	if _, err := db.Collection(keeper.CollectionDefault).InsertMany(t.Context(),
		[]any{bson.D{{Key: "_id", Value: "x"}, {Key: "g0", Value: "text"}}, good}); err != nil {
		t.Fatal(err)
	}
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
	db := testenv.Database(t)
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
