package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/scheduler"
)

// BenchmarkOverhead shows how long a call takes: at the provider itself, through a bare ReverseProxy, and through the
// gateway with its buckets in memory and in Redis. One run compares them, call by call, with two pings of Redis: a call
// that need not wait takes two of its round trips, for its place and for its bucket.
func BenchmarkOverhead(b *testing.B) {
	provider := httptest.NewServer(http.HandlerFunc(good))
	defer provider.Close()
	target, err := url.Parse(provider.URL)
	if err != nil {
		b.Fatal(err)
	}
	bare := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	defer bare.Close()
	large := reservations.Limit{Name: "pool", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1e9, Period: time.Second}, {Name: "requests", Rate: 1e7, Period: time.Second},
	}}
	point := func(c *gateway.Config) { c.Providers[0].BaseURL = provider.URL + "/v1" }
	memory := setup(b, good, point, large)
	options, err := redis.ParseURL(testenv.Redis(b))
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(options)
	b.Cleanup(func() { _ = client.Close() })
	shared := setup(b, good, func(c *gateway.Config) {
		point(c)
		store, fault := redisstore.Open(b.Context(), client)
		if fault != nil {
			b.Fatal(fault)
		}
		if c.Limiter, fault = reservations.New(store, []reservations.Limit{large}, reservations.Config{}); fault != nil {
			b.Fatal(fault)
		}
		line, fault := scheduler.New(client, c.Limiter, scheduler.Config{})
		if fault != nil {
			b.Fatal(fault)
		}
		c.Waitlist = inside.Of(line)
	}, large)
	ways := []struct{ name, url string }{
		{"direct", provider.URL}, {"bare", bare.URL}, {"memory", memory.URL}, {"redis", shared.URL},
	}
	took := map[string][]time.Duration{}
	call := func(to string) time.Duration {
		r, fault := http.NewRequestWithContext(b.Context(), http.MethodPost, to+"/v1/chat/completions",
			strings.NewReader(hello))
		if fault != nil {
			b.Fatal(fault)
		}
		began := time.Now()
		res, fault := http.DefaultClient.Do(r)
		if fault != nil {
			b.Fatal(fault)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			b.Fatal(res.Status)
		}
		return time.Since(began)
	}
	for b.Loop() {
		for _, way := range ways {
			took[way.name] = append(took[way.name], call(way.url))
		}
		began := time.Now()
		for range 2 {
			if err = client.Ping(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
		}
		took["pings"] = append(took["pings"], time.Since(began))
	}
	for name, all := range took {
		slices.Sort(all)
		for _, p := range []int{50, 99} {
			at := all[(len(all)-1)*p/100]
			b.ReportMetric(float64(at.Microseconds()), fmt.Sprintf("%s-p%d-µs", name, p))
		}
	}
}
