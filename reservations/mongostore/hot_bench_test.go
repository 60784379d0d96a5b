package mongostore_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

const (
	hotCallers = 64
	hotRounds  = 9
	hotRound   = 400 * time.Millisecond
)

// hotLimit never refuses.
var hotLimit = reservations.Limit{Name: "hot", Meters: []reservations.Meter{
	{Name: "requests", Rate: 1e9, Period: time.Second, MaxReserved: reservations.Unlimited},
	{Name: "tokens", Rate: 1e12, Period: time.Second, MaxReserved: 1e12},
}}

// BenchmarkHotBucket shares one bucket among 64 goroutines of one process, and compares that with the same store called one by one. All
// ways take turns for a moment each, so that whatever else the machine does meets all of them; reported are the medians of the rounds.
func BenchmarkHotBucket(b *testing.B) {
	for range b.N {
		uri, name := testenv.Mongo(b)
		db := connect(b, uri).Database(name)
		store, folding := mongostore.New(db, mongostore.Options{}), mongostore.New(db, mongostore.Options{Collection: "folding"}.With(mongostore.SwapNever))
		uncombined := mongostore.New(db, mongostore.Options{Collection: "uncombined"})
		through, throughFolding := begins(b, store), begins(b, folding)
		rates := map[string][]float64{}
		for range hotRounds {
			for what, c := range map[string]struct {
				callers int
				call    func(ctx context.Context) error
			}{
				"one-by-one/s":           {1, applies(store)},
				"64-uncombined/s":        {hotCallers, applies(uncombined)},
				"64-combined/s":          {hotCallers, through},
				"pipeline-one-by-one/s":  {1, applies(folding)},
				"pipeline-64-combined/s": {hotCallers, throughFolding},
			} {
				rates[what] = append(rates[what], rate(b, c.callers, c.call))
			}
		}
		for what := range rates {
			b.ReportMetric(median(rates[what]), what)
		}
		for metric, one := range map[string]string{
			"x-one-by-one": "one-by-one/s", "x-uncombined": "64-uncombined/s", "x-pipeline-one-by-one": "pipeline-one-by-one/s",
		} {
			ratios := make([]float64, hotRounds)
			for i := range ratios {
				ratios[i] = rates["64-combined/s"][i] / rates[one][i]
			}
			b.ReportMetric(median(ratios), metric)
		}
	}
}

// BenchmarkLoneCaller compares what a lone caller of a Limiter waits with a pipeline sent without one.
func BenchmarkLoneCaller(b *testing.B) {
	for range b.N {
		uri, name := testenv.Mongo(b)
		db := connect(b, uri).Database(name)
		store, folding := mongostore.New(db, mongostore.Options{}), mongostore.New(db, mongostore.Options{Collection: "folding"}.With(mongostore.SwapNever))
		through, direct := begins(b, store), applies(folding)
		var ours, theirs []float64
		for i := range 6000 { // in turn, so that both meet the same noise
			call, waits := through, &ours
			if i%2 == 1 {
				call, waits = direct, &theirs
			}
			began := time.Now()
			if err := call(b.Context()); err != nil {
				b.Fatal(err)
			}
			if i >= 100 {
				*waits = append(*waits, float64(time.Since(began).Microseconds()))
			}
		}
		slices.Sort(ours)
		slices.Sort(theirs)
		b.ReportMetric(median(ours), "p50-µs")
		b.ReportMetric(median(theirs), "pipeline-p50-µs")
		p99, theirP99 := ours[len(ours)*99/100], theirs[len(theirs)*99/100]
		b.ReportMetric(p99, "p99-µs")
		b.ReportMetric(theirP99, "pipeline-p99-µs")
		b.ReportMetric(p99/theirP99, "p99-ratio")
	}
}

func median(of []float64) float64 {
	of = slices.Clone(of)
	slices.Sort(of)
	return of[len(of)/2]
}

func applies(store reservations.Store) func(ctx context.Context) error {
	requests := []reservations.Request{{Op: reservations.OpBegin, Tokens: []float64{1, 100}}}
	return func(ctx context.Context) error {
		_, err := store.Apply(ctx, hotLimit, "", requests)
		return err
	}
}

func begins(b *testing.B, store reservations.Store) func(ctx context.Context) error {
	b.Helper()
	limiter, err := reservations.New(store, []reservations.Limit{hotLimit}, reservations.Config{})
	if err != nil {
		b.Fatal(err)
	}
	charge := reservations.Charge{Limit: hotLimit.Name, Tokens: reservations.Tokens{"requests": 1, "tokens": 100}}
	return func(ctx context.Context) error {
		_, err := limiter.Begin(ctx, charge, reservations.Place{})
		return err
	}
}

// rate is how many calls a second the callers make for a round.
func rate(b *testing.B, callers int, call func(ctx context.Context) error) float64 {
	b.Helper()
	var calls atomic.Int64
	var running sync.WaitGroup
	began := time.Now()
	for range callers {
		running.Go(func() {
			for time.Since(began) < hotRound {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	running.Wait()
	return float64(calls.Load()) / time.Since(began).Seconds()
}
