package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

const (
	providerKey = "sk-of-the-provider-0123456789"
	hello       = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"12345678"}]}`
	streamed    = `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"12345678"}]}`
	helloInput  = 9 // tokens that are estimated for its prompt
)

// bed is a gateway before a provider.
type bed struct {
	*httptest.Server

	t       testing.TB
	limiter *reservations.Limiter
	gateway *gateway.Gateway
}

// pool is a limit of 1000 tokens and 10 requests that nothing refills within a test.
func pool() reservations.Limit {
	return reservations.Limit{Name: "pool", Meters: []reservations.Meter{
		{Name: "tokens", Rate: 1000, Period: 1000 * time.Hour}, {Name: "requests", Rate: 10, Period: 1000 * time.Hour},
	}}
}

// setup starts a gateway before a provider that answers by handle. Change changes its configuration.
func setup(tb testing.TB, handle http.HandlerFunc, change func(*gateway.Config), limits ...reservations.Limit) *bed {
	tb.Helper()
	if len(limits) == 0 {
		limits = []reservations.Limit{pool()}
	}
	limiter, err := reservations.New(memstore.NewAt(time.Now), limits, reservations.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	provider := httptest.NewServer(handle)
	tb.Cleanup(provider.Close)
	config := gateway.Config{
		Limiter:   limiter,
		Providers: []gateway.Provider{{BaseURL: provider.URL + "/v1", APIKey: providerKey}},
		Logger:    slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&config)
	}
	g, err := gateway.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	b := &bed{Server: httptest.NewServer(g), t: tb, limiter: limiter, gateway: g}
	tb.Cleanup(func() {
		b.Close()
		b.settled()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return b
}

// settled waits until all calls are settled.
func (b *bed) settled() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.gateway.Close(ctx); err != nil {
		b.t.Error(err)
	}
}

// left is what is left of the pool.
func (b *bed) left() (tokens, requests float64) {
	b.t.Helper()
	b.settled()
	v, err := b.limiter.View(b.t.Context(), "pool", "")
	if err != nil {
		b.t.Fatal(err)
	}
	return math.Round(v.Meters[0].Level), math.Round(v.Meters[1].Level)
}

// post sends a body, and returns the status and the body of the answer.
func (b *bed) post(path, body string, header ...string) (status int, text string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := b.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	read, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(read)
}
