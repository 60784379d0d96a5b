// Package library measures reservations without workers: the rate of one process.
package library

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/bench/results"
)

// The contestants.
const (
	Headway  = "headway"
	OneByOne = "headway-one-by-one"
	Rate     = "redis-rate"
)

// Many is the number of buckets of the second half of the work.
const Many = 10_000

// Callers returns the numbers of concurrent goroutines.
func Callers() []int { return []int{1, 8, 64} }

// About describes the work and each contestant.
func About() (work string, contestants map[string]string) {
	return "Reservations a second of one process, on one bucket and on 10 000 of them picked at random, by 1, 8 and 64 " +
			"callers. The limits never refuse.",
		map[string]string{
			Headway:  "a Limiter with MongoDB buckets, where callers of one bucket share a round trip.",
			OneByOne: "the same store, called directly, a round trip for each reservation.",
			Rate:     "github.com/go-redis/redis_rate, on the same machine's Redis.",
		}
}

// limit never refuses.
func limit() reservations.Limit {
	return reservations.Limit{Name: "hot", Meters: []reservations.Meter{
		{Name: "requests", Rate: 1e9, Period: time.Second},
		{Name: "tokens", Rate: 1e12, Period: time.Second, MaxReserved: 1e12},
	}}
}

// reserve makes one reservation in the bucket of that key.
type reserve func(ctx context.Context, key string) error

// Bench is the work. Close it at the end.
type Bench struct {
	mongo *mongo.Client
	name  string
	redis *redis.Client
	by    map[string]reserve
	many  int
}

// New connects to both services, and creates many buckets for the second half of the work.
func New(ctx context.Context, mongoURI, redisURL, database string, many int) (*Bench, error) {
	address, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, fmt.Errorf("library: address of Redis: %w", err)
	}
	client, err := mongostore.Connect(ctx, mongoURI)
	if err != nil {
		return nil, fmt.Errorf("library: %w", err)
	}
	b := &Bench{mongo: client, name: database, redis: redis.NewClient(address), many: many}
	store := mongostore.New(client.Database(database), mongostore.Options{})
	limiter, err := reservations.New(store, []reservations.Limit{limit()}, reservations.Config{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("library: %w", err), b.Close(ctx))
	}
	direct := mongostore.New(client.Database(database), mongostore.Options{Collection: "direct"})
	b.by = map[string]reserve{
		Headway: func(ctx context.Context, key string) error {
			charge := reservations.Charge{Limit: "hot", Key: key, Tokens: reservations.Tokens{"requests": 1, "tokens": 100}}
			_, err := inside.Of(limiter).Ask(ctx, charge)
			return err
		},
		OneByOne: func(ctx context.Context, key string) error {
			_, err := bucket.Apply(ctx, direct, bucket.Rules(limit()), key, []bucket.Request{
				{Op: bucket.OpStart, Tokens: []float64{1, 100}},
			})
			return err
		},
		Rate: b.rate(),
	}
	return b, b.fill(ctx)
}

func (b *Bench) rate() reserve {
	limiter := redis_rate.NewLimiter(b.redis)
	most := redis_rate.Limit{Rate: 1e9, Burst: 1e9, Period: time.Second}
	return func(ctx context.Context, key string) error {
		_, err := limiter.Allow(ctx, "hot:"+key, most)
		return err
	}
}

// fill creates the buckets, so that only their use is measured.
func (b *Bench) fill(ctx context.Context) error {
	for _, reserve := range b.by {
		var next atomic.Int64
		err := together(64, func() error {
			for i := next.Add(1); i <= int64(b.many); i = next.Add(1) {
				if err := reserve(ctx, strconv.FormatInt(i, 10)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("library: make the buckets: %w", err)
		}
	}
	return nil
}

// Round measures all contestants in turn, each for that long, and returns the metrics by contestant.
func (b *Bench) Round(ctx context.Context, each time.Duration) (map[string]map[string]float64, error) {
	found := map[string]map[string]float64{Headway: {}, OneByOne: {}, Rate: {}}
	for _, callers := range Callers() {
		for _, buckets := range []int{1, b.many} {
			for _, name := range []string{Headway, OneByOne, Rate} {
				perSecond, err := measured(ctx, b.by[name], callers, buckets, each)
				if err != nil {
					return nil, fmt.Errorf("library: %s with %d callers: %w", name, callers, err)
				}
				found[name][Metric(buckets, callers)] = perSecond
			}
		}
	}
	return found, nil
}

// Metric returns the name of the metric for a number of buckets (one or many) and callers.
func Metric(buckets, callers int) string {
	what := "one"
	if buckets > 1 {
		what = "many"
	}
	return results.PerSecond + what + "_" + strconv.Itoa(callers)
}

func measured(ctx context.Context, reserve reserve, callers, buckets int, each time.Duration) (float64, error) {
	var done atomic.Int64
	began := time.Now()
	err := together(callers, func() error {
		for time.Since(began) < each {
			key := ""
			if buckets > 1 {
				key = strconv.Itoa(1 + rand.IntN(buckets)) //nolint:gosec // no secret
			}
			if err := reserve(ctx, key); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	})
	return float64(done.Load()) / time.Since(began).Seconds(), err
}

// together runs n calls at once and waits for all.
func together(n int, one func() error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = one() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Close drops the database and closes the connections.
func (b *Bench) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return errors.Join(b.mongo.Database(b.name).Drop(ctx), b.mongo.Disconnect(ctx), b.redis.Close())
}
