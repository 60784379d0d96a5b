package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// claimTTL is how long a logical database stays claimed after its test process died without a cleanup.
	claimTTL = 10 * time.Minute
	// claimWait is how long a test waits for a free logical database.
	claimWait = 5 * time.Minute
	// defaultDatabases is the number of databases in Redis's default configuration.
	defaultDatabases = 16
)

// dropClaim frees a database if its claim still has this token.
//
//	KEYS[1] -> the claim
//	ARGV[1] -> the token of the claim
//	Output:    1 if freed, 0 if the claim had another token
const dropClaim = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// Redis returns the URL of a logical database of the server at REDIS_URL, for this test alone. The database is empty
// at the start, and emptied at the end. Tests of several processes may call Redis at the same time; it waits while
// all databases are taken. Without REDIS_URL the test fails.
//
// Tests share channels, configuration and memory, as the databases of a Redis do. A test that needs a whole server
// uses [StartRedisServer].
func Redis(tb testing.TB) string {
	tb.Helper()
	base, address := parseRedisURL(tb)
	claims := redis.NewClient(base)
	tb.Cleanup(func() { _ = claims.Close() })

	db := claimDatabase(tb, claims)
	own := *base
	own.DB = db
	flush(tb, tb.Context(), &own)
	tb.Cleanup(func() {
		ctx, cancel := cleanupContext(tb)
		defer cancel()
		flush(tb, ctx, &own)
	})
	address.Path = fmt.Sprintf("/%d", db)
	return address.String()
}

func parseRedisURL(tb testing.TB) (*redis.Options, *url.URL) {
	tb.Helper()
	raw := os.Getenv("REDIS_URL")
	if raw == "" {
		tb.Fatal("testenv: REDIS_URL is not set: run the tests with `make test`, " +
			"or `scripts/services up` and eval \"$(scripts/services env)\" first")
	}
	options, err := redis.ParseURL(raw)
	if err != nil {
		tb.Fatalf("testenv: REDIS_URL: %v", err)
	}
	address, _ := url.Parse(raw) // valid, because ParseURL has read it
	options.DB = 0               // database 0 contains the claims, and no test gets it
	options.ReadTimeout = time.Minute
	return options, address
}

// claimDatabase claims a free database until the test ends.
func claimDatabase(tb testing.TB, claims *redis.Client) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), claimWait)
	defer cancel()
	count := databases(ctx, claims)
	token := uuid.NewString()
	retry := time.NewTicker(50 * time.Millisecond)
	defer retry.Stop()
	for {
		for db := 1; db < count; db++ {
			got, err := claims.SetNX(ctx, claimKey(db), token, claimTTL).Result()
			if err != nil {
				tb.Fatalf("testenv: claim a Redis database at %s: %v", claims.Options().Addr, err)
			}
			if got {
				keepClaim(tb, claims, claimKey(db), token)
				return db
			}
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			tb.Fatalf("testenv: all %d Redis databases at %s stay taken", count-1, claims.Options().Addr)
		}
	}
}

func claimKey(db int) string { return fmt.Sprintf("headway-testenv:%d", db) }

// databases asks the server how many logical databases it has.
func databases(ctx context.Context, client *redis.Client) int {
	answer, err := client.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return defaultDatabases // CONFIG may be forbidden on a managed server
	}
	n, err := strconv.Atoi(answer["databases"])
	if err != nil {
		return defaultDatabases
	}
	return n
}

// keepClaim renews a claim until the test's cleanup, which drops it.
func keepClaim(tb testing.TB, claims *redis.Client, key, token string) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(claimTTL / 4)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = claims.Expire(ctx, key, claimTTL).Err() // the next renewal follows soon
			case <-ctx.Done():
				return
			}
		}
	})
	tb.Cleanup(func() {
		cancel()
		renewing.Wait()
		ctx, stop := cleanupContext(tb)
		defer stop()
		if err := claims.Eval(ctx, dropClaim, []string{key}, token).Err(); err != nil {
			tb.Logf("testenv: drop the claim %s: %v", key, err)
		}
	})
}

// flush empties one logical database. At the end of a test it ignores a server that does not answer.
func flush(tb testing.TB, ctx context.Context, o *redis.Options) {
	tb.Helper()
	client := redis.NewClient(o)
	defer func() { _ = client.Close() }()
	if err := client.FlushDB(ctx).Err(); err != nil && !errors.Is(err, context.Canceled) {
		tb.Errorf("testenv: empty database %d of Redis at %s: %v", o.DB, o.Addr, err)
	}
}

// cleanupContext returns a context for cleanups, in which the test's own context has ended.
func cleanupContext(tb testing.TB) (context.Context, context.CancelFunc) {
	tb.Helper()
	return context.WithTimeout(context.WithoutCancel(tb.Context()), 5*time.Minute)
}
