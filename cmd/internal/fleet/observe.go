package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/dashboard"
	"github.com/headway-go/headway/internal/nearest"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// keysDefault is how many keys of a limit are labels where --metrics-keys gives no number.
const keysDefault = 20

// scrapeTimeout bounds one request to the metrics.
const scrapeTimeout = 10 * time.Second

// observer serves the metrics of a worker process. A nil observer does nothing.
type observer struct {
	metrics  *metrics.Metrics
	listener net.Listener
	log      *slog.Logger
}

// newObserver listens at the address; it is nil for an empty one.
func newObserver(
	ctx context.Context, address string, keys []string, limits []reservations.Limit, logger *slog.Logger,
) (*observer, error) {
	labels, err := keyLabels(keys, limits)
	if err != nil {
		return nil, err
	}
	if address == "" {
		return nil, nil //nolint:nilnil // metrics are off
	}
	local, err := localAddress(address)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", local)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w; another process may listen there: name another port", address, err)
	}
	return &observer{
		metrics: metrics.New(metrics.Config{Keys: labels, Logger: logger}), listener: listener, log: logger,
	}, nil
}

// localAddress adds loopback to an address without a host.
func localAddress(address string) (string, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return "", cli.Usage("--metrics: %q must be a port or host:port, e.g. 127.0.0.1:9464", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// keyLabels reads "limit" and "limit=number", of limits that there are.
func keyLabels(texts []string, limits []reservations.Limit) (map[string]int, error) {
	var names []string
	for _, l := range limits {
		names = append(names, l.Name)
	}
	labels := map[string]int{}
	for _, text := range texts {
		limit, number, given := strings.Cut(text, "=")
		if !slices.Contains(names, limit) {
			return nil, cli.Usage("--metrics-keys: there is no limit %q; %s", limit, nearest.There(limit, names))
		}
		n := keysDefault
		if given {
			var err error
			if n, err = strconv.Atoi(number); err != nil || n < 1 {
				return nil, cli.Usage("--metrics-keys: %q must be LIMIT or LIMIT=NUMBER, e.g. tenant=%d", text, keysDefault)
			}
		}
		labels[limit] = n
	}
	return labels, nil
}

// close ends the listening of an observer that does not serve.
func (o *observer) close() {
	if o != nil {
		_ = o.listener.Close() // served, it is closed already
	}
}

// mongo has the commands of MongoDB measured.
func (o *observer) mongo(settings *options.ClientOptions) {
	if o != nil {
		o.metrics.Mongo(settings)
	}
}

// measure has the calls of Redis and of the store measured.
func (o *observer) measure(queue redis.UniversalClient, buckets *connect.Buckets) {
	if o != nil {
		queue.AddHook(o.metrics.RedisHook())
		buckets.Store = o.metrics.Store(buckets.Store)
	}
}

// events returns the hooks of the worker: the others, and the one of the metrics.
func (o *observer) events(others ...func(worker.Event)) []func(worker.Event) {
	if o == nil {
		return others
	}
	return append(others, o.metrics.Event)
}

// serve serves the metrics, and /healthz and /readyz beside them, until stop is called.
func (o *observer) serve(
	ctx context.Context, queue redis.UniversalClient, limiter *reservations.Limiter,
) (stop func(), err error) {
	if o == nil {
		return func() {}, nil
	}
	if err = o.metrics.Watch(queue, limiter); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.metrics, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	server := &http.Server{
		Handler: o.guard(o.handler(ctx, registry)), ReadHeaderTimeout: scrapeTimeout, ReadTimeout: scrapeTimeout,
		WriteTimeout: scrapeTimeout, IdleTimeout: 2 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), // its lines hold what clients send
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(o.listener); !errors.Is(err, http.ErrServerClosed) {
			o.log.LogAttrs(ctx, slog.LevelError, "metrics are not served any more", slog.Any("error", err))
		}
	})
	o.log.LogAttrs(ctx, slog.LevelInfo, "metrics are served", slog.String("address", o.listener.Addr().String()))
	return func() {
		_ = server.Close() // scrapes under way are of no use any more
		serving.Wait()
		o.metrics.Close()
	}, nil
}

// guard refuses requests that do not name this machine where the metrics are on loopback: the page of another site may
// point its own name there, and read the answers.
func (o *observer) guard(next http.Handler) http.Handler {
	address, here := o.listener.Addr().(*net.TCPAddr)
	if !here || !address.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !dashboard.Loopback(r.Host) {
			http.Error(w, "the metrics answer on loopback only: ask 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// handler serves the metrics, and whether the process lives and is ready.
func (o *observer) handler(ctx context.Context, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: scrapeTimeout / 2, EnableOpenMetrics: true,
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := o.metrics.Ready()
		if ctx.Err() != nil {
			err = errors.New("the worker stops")
		}
		answer(w, err)
	})
	return mux
}

// answer is 200, or 503 with the reason.
func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, cli.Printable(err.Error())) // the client is gone
		return
	}
	_, _ = fmt.Fprintln(w, "ok") // as above
}
