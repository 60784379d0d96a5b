package fleet

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/setup/config"
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
			quota := provider.Quota{Rate: m.Rate / m.Period.Seconds(), Capacity: m.Cap()}
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

// quotasBy returns what stands in for each provider by name, and by the empty name for the one of the environment.
func quotasBy(c config.Config) map[string]quotas {
	all := map[string]quotas{"": quotasOf(c.Limits)}
	for _, p := range c.Providers {
		all[p.Name] = quotasOf(slices.DeleteFunc(slices.Clone(c.Limits), func(l reservations.Limit) bool {
			return !slices.Contains(p.Limits, l.Name)
		}))
	}
	return all
}

// devProvider stands in for all providers, on loopback. Their limits can change: then another server answers at the
// same address.
type devProvider struct {
	server *http.Server
	on     net.Listener
	served sync.WaitGroup

	mu      sync.RWMutex       // guards what is below
	current map[string]standIn // by the name of the provider
	all     []*provider.Server // also replaced servers, whose last calls may still run
}

// standIn is the server that enforces the quotas of one provider.
type standIn struct {
	*provider.Server
	quotas
}

func startDevProvider(c config.Config) (*devProvider, error) {
	p := &devProvider{current: map[string]standIn{}}
	if err := p.set(c); err != nil {
		return nil, err
	}
	on, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listen for the provider: %w", err)
	}
	p.on, p.server = on, &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	p.served.Go(func() { _ = p.server.Serve(on) }) // always ends with http.ErrServerClosed, in close
	return p, nil
}

// set has the providers enforce the limits from now on.
func (p *devProvider) set(c config.Config) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := maps.Clone(p.current) // the last calls of a removed provider may still come
	for name, q := range quotasBy(c) {
		if now, there := next[name]; there && now.quotas == q {
			continue
		}
		server, err := provider.New(provider.Config{Requests: q.requests, Tokens: q.tokens})
		if err != nil {
			return fmt.Errorf("the provider can't enforce these limits: %w", err)
		}
		next[name], p.all = standIn{server, q}, append(p.all, server)
	}
	p.current = next
	return nil
}

func (p *devProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	before, _, _ := strings.Cut(r.URL.Path, "/v1/")
	p.mu.RLock()
	now, there := p.current[strings.TrimPrefix(before, "/")]
	p.mu.RUnlock()
	if !there {
		http.NotFound(w, r)
		return
	}
	http.StripPrefix(before, now).ServeHTTP(w, r)
}

// url returns the base URL of the stand-in for a provider.
func (p *devProvider) url(name string) string {
	return "http://" + path.Join(p.on.Addr().String(), name, "v1")
}

func (p *devProvider) close() {
	_ = p.server.Close() // nothing is left to do over it
	p.served.Wait()
	for _, one := range p.all {
		_ = one.Close() // as above
	}
}
