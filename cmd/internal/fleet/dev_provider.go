package fleet

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
)

// quotas are what the provider of `headway dev` enforces.
type quotas struct{ requests, tokens provider.Quota }

// quotasOf are the meters for requests and tokens of the first limit that has one.
func quotasOf(limits []reservations.Limit) (q quotas) {
	for _, l := range limits {
		for _, m := range l.Meters {
			if m.Kind != "" && m.Kind != reservations.KindBucket {
				continue
			}
			quota := provider.Quota{Rate: m.RatePerSecond(), Capacity: m.Cap()}
			switch m.Name {
			case llm.MeterRequests:
				q.requests = quota
			case llm.MeterTokens:
				q.tokens = quota
			}
		}
		if q != (quotas{}) {
			return q
		}
	}
	return q
}

// devProvider is a provider on loopback whose limits can change: then another one answers at the same address.
type devProvider struct {
	server *http.Server
	on     net.Listener
	served chan struct{}

	mu      sync.RWMutex // guards what is below
	quotas  quotas
	current *provider.Server
	all     []*provider.Server // also replaced servers, whose last calls may still run
}

func startDevProvider(limits []reservations.Limit) (*devProvider, error) {
	p := &devProvider{served: make(chan struct{})}
	if err := p.set(limits); err != nil {
		return nil, err
	}
	on, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listen for the provider: %w", err)
	}
	p.on, p.server = on, &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(p.served)
		_ = p.server.Serve(on) // always ends with http.ErrServerClosed, in close
	}()
	return p, nil
}

// set has the provider enforce the limits from now on.
func (p *devProvider) set(limits []reservations.Limit) error {
	q := quotasOf(limits)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil && p.quotas == q {
		return nil
	}
	next, err := provider.New(provider.Config{Requests: q.requests, Tokens: q.tokens})
	if err != nil {
		return fmt.Errorf("the provider can't enforce these limits: %w", err)
	}
	p.quotas, p.current, p.all = q, next, append(p.all, next)
	return nil
}

func (p *devProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.RLock()
	now := p.current
	p.mu.RUnlock()
	now.ServeHTTP(w, r)
}

func (p *devProvider) url() string { return "http://" + p.on.Addr().String() + "/v1" }

func (p *devProvider) close() {
	err := p.server.Close()
	<-p.served
	for _, one := range p.all {
		err = errors.Join(err, one.Close())
	}
	_ = err // nothing is left to do over it
}
