// Package provider is the provider of all contestants. It stores the arrival of each call, and refuses none. The
// runner judges the arrivals afterwards.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/headway-go/headway/bench/measure"
)

// Provider is a server on a free loopback port. It is safe for concurrent use.
type Provider struct {
	server  *http.Server
	url     string
	served  chan error
	longest time.Duration

	mu    sync.Mutex
	began time.Time
	byKey map[string][]measure.Arrival
	count int
}

// Start serves calls. An answer takes between zero and longest, always the same for a task.
func Start(ctx context.Context, longest time.Duration) (*Provider, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	p := &Provider{url: "http://" + listener.Addr().String(), served: make(chan error, 1), longest: longest}
	p.Reset(time.Now())
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute}
	go func() { p.served <- p.server.Serve(listener) }()
	return p, nil
}

// URL is the address of the server.
func (p *Provider) URL() string { return p.url }

// Reset deletes all calls. Later calls are timed from began.
func (p *Provider) Reset(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.byKey, p.count = began, map[string][]measure.Arrival{}, 0
}

// Count returns the number of calls with that key. An empty key means all calls.
func (p *Provider) Count(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key == "" {
		return p.count
	}
	return len(p.byKey[key])
}

// Arrivals returns the calls so far, by key.
func (p *Provider) Arrivals() map[string][]measure.Arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	copied := make(map[string][]measure.Arrival, len(p.byKey))
	for key, arrivals := range p.byKey {
		copied[key] = append([]measure.Arrival(nil), arrivals...)
	}
	return copied
}

// Close stops the server and aborts running calls.
func (p *Provider) Close() error {
	err := p.server.Close()
	if serving := <-p.served; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	query := r.URL.Query()
	seq, err := strconv.Atoi(query.Get("seq"))
	used, err2 := strconv.Atoi(query.Get("used"))
	if err = errors.Join(err, err2); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	key := query.Get("key")
	p.byKey[key] = append(p.byKey[key], measure.Arrival{At: now.Sub(p.began), Seq: seq, Tokens: float64(used)})
	p.count++
	p.mu.Unlock()
	if p.longest > 0 {
		answer := time.NewTimer(time.Duration(seq*7919%1000) * p.longest / 1000)
		defer answer.Stop()
		select {
		case <-answer.C:
		case <-r.Context().Done():
		}
	}
}
