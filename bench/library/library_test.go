package library_test

import (
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/headway-go/headway/bench/library"
)

func TestEverybodyReserves(t *testing.T) {
	t.Parallel()
	mongoURI, redisURL := os.Getenv("MONGODB_URI"), os.Getenv("REDIS_URL")
	if mongoURI == "" || redisURL == "" {
		t.Fatal("MONGODB_URI or REDIS_URL is not set: use make test, or eval \"$(scripts/services env)\"")
	}
	b, err := library.New(t.Context(), mongoURI, redisURL, "headway-bench-"+uuid.NewString(), 20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if closing := b.Close(t.Context()); closing != nil {
			t.Error(closing)
		}
	}()
	found, err := b.Round(t.Context(), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{library.Headway, library.OneByOne, library.Rate} {
		for _, callers := range library.Callers() {
			for _, buckets := range []int{1, library.Many} {
				if metric := library.Metric(buckets, callers); found[name][metric] <= 0 {
					t.Errorf("%s: %s is %v", name, metric, found[name][metric])
				}
			}
		}
	}
}
