package embedded_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Buckets can be in the embedded Redis, so that another process can look at them and reserve.
func TestKeepsBuckets(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	store, err := redisstore.Open(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{reservations.PerSecond("requests", 1000)}}
	limiter, err := reservations.New(store, []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	charge := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"requests": 10}}
	for range 2 {
		if _, err = inside.Of(limiter).Ask(t.Context(), charge); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := limiter.View(t.Context(), "api", ""); err != nil || !v.Found {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestWantsThePassword(t *testing.T) {
	t.Parallel()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	options.Password = ""
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	if err := client.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without the password: %v", err)
	}
}
