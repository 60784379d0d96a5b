package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/redisstore"
)

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
