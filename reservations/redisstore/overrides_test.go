package redisstore_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

func TestOverrides(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), connect(t, testenv.Redis(t))
	o := redisstore.Unchecked(client)
	if list, err := o.Overrides(ctx); err != nil || list == nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	at := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	whole := reservations.Override{
		Limit: "openai", Meter: "requests", Rate: 300, Period: time.Minute, SetAt: at, By: "ann",
	}
	keyed := reservations.Override{
		Limit: "openai", Key: "a/b:c", Meter: "tokens", Rate: 0.5, Period: 1500 * time.Millisecond, Capacity: 20,
		SetAt: at, By: "bob",
	}
	first := whole
	first.Rate = 100
	for _, set := range []reservations.Override{keyed, first, whole} {
		if err := o.SetOverride(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	list, err := redisstore.Unchecked(client).Overrides(ctx)
	if diff := cmp.Diff([]reservations.Override{whole, keyed}, list); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if there, err := o.UnsetOverride(ctx, "openai", "", "tokens"); there || err != nil {
		t.Errorf("unset what is not there: %v, %v", there, err)
	}
	if there, err := o.UnsetOverride(ctx, "openai", "a/b:c", "tokens"); !there || err != nil {
		t.Errorf("unset: %v, %v", there, err)
	}
}

func TestOverridesThatAreNone(t *testing.T) {
	t.Parallel()
	ctx, client := t.Context(), connect(t, testenv.Redis(t))
	o := redisstore.Unchecked(client)
	good := reservations.Override{Limit: "openai", Meter: "requests", Rate: 1, Period: time.Second}
	short, none := good, good
	short.Period, none.Key, none.Rate = time.Microsecond, "none", math.NaN()
	if err := o.SetOverride(ctx, short); !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Errorf("a microsecond: %v", err)
	}
	for _, set := range []reservations.Override{good, none} {
		if err := o.SetOverride(ctx, set); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.HSet(ctx, "headway:{buckets}:overrides", "by hand", "x").Err(); err != nil {
		t.Fatal(err)
	}
	copied := client.HGet(ctx, "headway:{buckets}:overrides", "openai/requests").Val()
	if err := client.HSet(ctx, "headway:{buckets}:overrides", "openai/tokens", copied).Err(); err != nil {
		t.Fatal(err)
	}
	list, err := o.Overrides(ctx)
	if len(list) != 1 || !strings.Contains(err.Error(), `"openai/tokens": its fields say "openai/requests"`) ||
		!errors.Is(err, redisstore.ErrMalformedOverride) || !strings.Contains(err.Error(), `"by hand"`) ||
		!strings.Contains(err.Error(), "NaN is not a number") {
		t.Errorf("%v, %v", list, err)
	}
}

func TestOverridesWithoutAServer(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = client.Close() }()
	o := redisstore.Unchecked(client)
	list, listing := o.Overrides(t.Context())
	_, unset := o.UnsetOverride(t.Context(), "a", "", "b")
	set := o.SetOverride(t.Context(), reservations.Override{Limit: "a", Meter: "b", Rate: 1, Period: time.Second})
	for _, err := range []error{listing, unset, set} {
		if !errors.Is(err, reservations.ErrUnavailable) || list != nil {
			t.Errorf("%v is not ErrUnavailable", err)
		}
	}
}
