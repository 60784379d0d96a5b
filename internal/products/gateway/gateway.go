package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/text/loopback"
	"github.com/headway-go/headway/internal/text/redact"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// The defaults of a Config.
const (
	MaxHoldDefault = 10 * time.Minute
	SilentDefault  = 10 * time.Second
	MaxBodyDefault = 32 << 20
	MemoryDefault  = 256 << 20
	TimeoutDefault = llm.TimeoutDefault
)

// Config says what a Gateway serves.
type Config struct {
	// Limiter decides when calls start. Required.
	Limiter *reservations.Limiter
	// Waitlist is where calls wait in line with the tasks of the fleet: the dispatcher. Nil lets each call wait by
	// itself, without a place to show.
	Waitlist Waitlist
	// Providers get the calls. At least one is required.
	Providers []Provider
	// Limit is LIMIT[:KEY] of the calls whose model no provider lists. Empty means the only limit of all providers; with
	// several limits such calls are refused.
	Limit string
	// Keys knows the callers. Nil serves everybody on this machine, and no page of a browser that another site serves.
	Keys Keys
	// Prices are the prices of models, for keys with a budget.
	Prices map[string]estimates.Price
	// MaxHold is how long a call waits at most. Defaults to MaxHoldDefault.
	MaxHold time.Duration
	// Silent is how long a call waits until its response opens, and the pause between signs of life. Defaults to
	// SilentDefault.
	Silent time.Duration
	// Timeout bounds one call of a provider. Defaults to TimeoutDefault.
	Timeout time.Duration
	// MaxBody bounds a request, in bytes. Defaults to MaxBodyDefault.
	MaxBody int64
	// Memory bounds what the bodies of all calls take together, in bytes. A body of at most 16 kB does not count.
	// Defaults to MemoryDefault.
	Memory int64
	// Large lets through requests that reserve more than the capacity of a meter.
	Large bool
	// Transport makes the calls. Defaults to one of its own.
	Transport http.RoundTripper
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Events are called at each step of a call, as worker.Config.Events are. A call has the queue "gateway", and its
	// endpoint as its type. Tracing makes spans; nil is the global provider.
	Events  []func(worker.Event)
	Tracing trace.TracerProvider
	// Batching serves files and batches. Nil refuses them.
	Batching *Batching
}

// Provider is an API in the style of OpenAI or Anthropic.
type Provider struct {
	Name string
	// BaseURL is the address before "/chat/completions", and APIKey the key that is sent there.
	BaseURL string
	APIKey  string
	// Limits are the limits whose calls go to this provider, Models the models whose calls take from the first of them.
	// A single provider without Limits serves all limits.
	Limits []string
	Models []string
	// Sync says what the rate limit headers of its answers may do to the buckets.
	Sync llm.Sync

	base *url.URL
}

// Keys knows what the caller with a secret may do.
type Keys interface {
	Find(ctx context.Context, secret string) (key keys.Key, ok bool)
}

// Gateway is an http.Handler. Stop it before its server, and Close it after that.
type Gateway struct {
	config    Config
	fallback  reservations.Charge // of Config.Limit
	proxy     *httputil.ReverseProxy
	client    *http.Client // names the transport to httpcall.Watch
	memory    *memory
	secrets   redact.Secrets
	settling  sync.WaitGroup
	transport http.RoundTripper
	serving   context.Context //nolint:containedctx // ends with Stop
	stop      context.CancelCauseFunc
	looks     chan struct{} // of watches
	batching  *batching     // nil without Config.Batching
	tracer    trace.Tracer
	sameSite  http.CrossOriginProtection // for callers without keys
}

// New returns a gateway. The limiter waits in its waitlist from now on. The error joins all faults of the config.
func New(config Config) (*Gateway, error) {
	config.MaxHold = cmp.Or(config.MaxHold, MaxHoldDefault)
	config.Silent = cmp.Or(config.Silent, SilentDefault)
	config.Timeout = cmp.Or(config.Timeout, TimeoutDefault)
	config.MaxBody = cmp.Or(config.MaxBody, MaxBodyDefault)
	config.Memory = cmp.Or(config.Memory, MemoryDefault)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Providers = slices.Clone(config.Providers)
	g := &Gateway{
		config: config, memory: newMemory(config.Memory), transport: config.Transport, looks: make(chan struct{}, looksMost),
		batching: newBatching(config.Batching),
	}
	if err := g.validate(); err != nil {
		return nil, err
	}
	if g.transport == nil {
		g.transport = intake.Transport()
	}
	if config.Tracing == nil {
		config.Tracing = otel.GetTracerProvider()
	}
	g.tracer = config.Tracing.Tracer(tracerName)
	g.client = &http.Client{Transport: g.transport}
	if config.Waitlist != nil {
		inside.Of(config.Limiter).WaitIn(line{config.Waitlist})
	}
	hidden := redact.Proxies()
	for _, p := range g.config.Providers {
		hidden = append(hidden, p.APIKey)
	}
	g.secrets = redact.New(hidden...)
	g.serving, g.stop = context.WithCancelCause(context.Background())
	g.proxy = &httputil.ReverseProxy{
		Transport: g.transport, Rewrite: rewrite, ModifyResponse: answered, ErrorHandler: failed, BufferPool: &buffers{},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // failed has seen to it
	}
	return g, nil
}

func (g *Gateway) validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	c := g.config
	if c.Limiter == nil {
		return errors.New("gateway: Limiter is missing")
	}
	if len(c.Providers) == 0 {
		fault("providers", "there is none: a gateway needs one at least")
	}
	for i, p := range c.Providers {
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			fault("providers."+p.Name+".base_url", "must look like https://host/v1")
			continue
		}
		u.Path = strings.TrimSuffix(u.Path, "/")
		c.Providers[i].base = u
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{{"max_hold", c.MaxHold}, {"silent", c.Silent}, {"timeout", c.Timeout}} {
		if field.value < 0 {
			fault(field.name, "%v must not be negative", field.value)
		}
	}
	g.fallback = bucketOf(c.Limit)
	if c.Limit == "" {
		g.fallback.Limit = g.only()
	} else if _, err := inside.Of(c.Limiter).Limits().For(g.fallback.Limit, g.fallback.Key); err != nil {
		fault("limit", "%v", err)
	}
	return errors.Join(faults...)
}

// only is the limit that all calls take from if there is a single one; empty if there are several.
func (g *Gateway) only() string {
	limits := []string{}
	for _, p := range g.config.Providers {
		limits = append(limits, p.Limits...)
	}
	if len(limits) == 0 {
		limits = inside.Of(g.config.Limiter).Limits().Names()
	}
	if len(limits) != 1 {
		return ""
	}
	return limits[0]
}

// bucketOf reads LIMIT[:KEY].
func bucketOf(text string) reservations.Charge {
	limit, key, _ := strings.Cut(text, ":")
	return reservations.Charge{Limit: limit, Key: key}
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server reads the rest of a body that was not read, which may never come. A recorder in a test has no deadlines.
	defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restPatience)) }()
	to, problem := routeOf(r)
	if strings.EqualFold(r.Header.Get("Upgrade"), "h2c") { // an offer, which clients in Java make: HTTP/1.1 goes on
		r.Header.Del("Upgrade")
	}
	var key keys.Key
	if problem == nil {
		key, problem = g.caller(r)
	}
	if problem == nil {
		problem = g.unfit(r, key)
	}
	switch {
	case problem != nil:
		writeFault(w, to.family, *problem)
	case to.endpoint == models:
		g.serveModels(w, r, to, key)
	case to.endpoint == filesPath, to.endpoint == batchesPath:
		g.serveBatching(w, r, to, key)
	default:
		g.serveLive(w, r, to, key) //nolint:contextcheck // it is the context of the request, with a span
	}
}

// caller finds what the caller may do.
func (g *Gateway) caller(r *http.Request) (keys.Key, *fault) {
	if g.config.Keys == nil {
		return keys.Key{}, nil
	}
	secret := secretOf(r.Header)
	key, ok := g.config.Keys.Find(r.Context(), secret)
	if !ok && secret == "" {
		return keys.Key{}, &fault{status: http.StatusUnauthorized, code: "invalid_api_key", message: "You sent no " +
			"API key. Set api_key to a key of this gateway (hw_...), as `headway keys create` makes it."}
	}
	if !ok {
		return keys.Key{}, &fault{status: http.StatusUnauthorized, code: "invalid_api_key", message: "This gateway " +
			"does not know the API key, or it has expired. Keys begin with hw_; `headway keys list` shows them."}
	}
	return key, nil
}

// secretOf is the key of a request, as the clients of OpenAI, Anthropic and Azure send it.
func secretOf(h http.Header) string {
	if scheme, bearer, _ := strings.Cut(h.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(bearer)
	}
	return strings.TrimSpace(cmp.Or(h.Get("X-Api-Key"), h.Get("Api-Key")))
}

// unfit says why a request is refused whatever its caller may do. Where no caller has a key, the page of another site
// is kept out, in a browser of this machine: it could send calls, or point its own name here and read the answers.
func (g *Gateway) unfit(r *http.Request, caller keys.Key) *fault {
	switch {
	case r.Header.Get("Upgrade") != "":
		return &fault{status: http.StatusBadRequest, message: "This gateway serves no other protocol than HTTP."}
	case r.Header.Get("Content-Encoding") != "" && r.Header.Get("Content-Encoding") != "identity":
		return &fault{status: http.StatusUnsupportedMediaType, message: "The body is compressed: send it as it is."}
	case caller.ID != "":
		return nil
	case !loopback.Host(r.Host):
		return &fault{status: http.StatusMisdirectedRequest, message: "Without keys this gateway answers on loopback " +
			"only: call 127.0.0.1 or localhost, or make keys by `headway keys create`."}
	case g.sameSite.Check(r) != nil:
		return &fault{status: http.StatusForbidden, message: "This request comes from the page of another site."}
	}
	return nil
}

// Stop ends the waits of all calls: their callers get an error at once, and try another gateway. Calls that run go on.
func (g *Gateway) Stop() { g.stop(errStopped) }

// errStopped ends the wait of a call.
var errStopped = errors.New("the gateway stops")

// Close waits until all calls are settled, at most until ctx ends.
func (g *Gateway) Close(ctx context.Context) error {
	defer g.client.CloseIdleConnections()
	done := make(chan struct{})
	go func() {
		g.settling.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("some calls are not settled yet, their estimates stay charged: %w", context.Cause(ctx))
	}
}
