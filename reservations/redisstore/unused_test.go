package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// In a Redis that the program has just started, nothing is to be waited for.
func TestOpenNew(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := connect(t, server.URL())
	slots := reservations.Limit{Name: "slots", Meters: []reservations.Meter{reservations.InFlight(1)}}
	store, err := redisstore.OpenNew(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := reservations.New(store, []reservations.Limit{slots}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if g, refused := limiter.Allow(t.Context(), reservations.Charge{Limit: "slots"}); refused != nil || !g.Started() {
		t.Errorf("%+v, %v", g, refused)
	}
	client.FlushAll(t.Context())
	if store, err = redisstore.Open(t.Context(), client); err != nil { // the Redis has lost a call that runs
		t.Fatal(err)
	}
	if limiter, err = reservations.New(store, []reservations.Limit{slots}, reservations.Config{}); err != nil {
		t.Fatal(err)
	}
	if g, err := limiter.Allow(t.Context(), reservations.Charge{Limit: "slots"}); err != nil || g.Started() {
		t.Errorf("%+v, %v", g, err)
	}
	if v, err := limiter.View(t.Context(), "slots", ""); err != nil || v.Forgotten < 20*time.Second {
		t.Errorf("%+v, %v", v, err)
	}
}

// A Redis that was never used since it was started begins with that moment, and one that was emptied with the present.
func TestAnUnusedRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t)
	client := connect(t, server.URL())
	epoch := func() time.Time {
		open(t, server.URL())
		text := client.Get(t.Context(), redisstore.KeyEpoch).Val()
		us, err := strconv.ParseInt(text[:16], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMicro(us)
	}
	up := client.Info(t.Context(), "server").Val()
	_, up, _ = strings.Cut(up, "uptime_in_seconds:")
	up, _, _ = strings.Cut(up, "\r")
	seconds, err := strconv.Atoi(up)
	if err != nil {
		t.Fatal(err)
	}
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	latest := now.Add(2*time.Second - time.Duration(seconds)*time.Second)
	if first := epoch(); first.After(latest) {
		t.Errorf("the epoch is %v, after the start of the server at %v", first, latest)
	}
	store := open(t, server.URL())
	apply(t, store, daily(), allow(1)) // a swap or none: it may have been forgotten from now on
	if err = store.Reset(t.Context(), "daily", ""); err != nil {
		t.Fatal(err)
	}
	client.FlushAll(t.Context())
	if now, err = client.Time(t.Context()).Result(); err != nil {
		t.Fatal(err)
	}
	if next := epoch(); next.Before(now) {
		t.Errorf("the epoch after a flush is %v, before %v", next, now)
	}
}
