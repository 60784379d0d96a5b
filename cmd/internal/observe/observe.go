// Package observe serves the metrics of a process: of a worker, or of a gateway.
package observe

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
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/loopback"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// keysDefault is how many keys of a limit are labels where --metrics-keys gives no number.
const keysDefault = 20

// scrapeTimeout bounds one request to the metrics.
const scrapeTimeout = 10 * time.Second

// Flags say what is served. The zero value serves nothing.
type Flags struct {
	Address string
	Keys    []string
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	c.Flags().StringVar(&f.Address, "metrics", "", "serve metrics at this `address`, e.g. 127.0.0.1:9464; off if empty")
	c.Flags().StringSliceVar(&f.Keys, "metrics-keys", nil,
		"`limits` whose keys are labels of metrics, with how many keys at most, e.g. tenant=50; others are \"other\"")
}

// Observer serves the metrics of a process. A nil Observer does nothing.
type Observer struct {
	metrics  *metrics.Metrics
	listener net.Listener
	log      *slog.Logger
}

// New listens at the address of the flags. It is nil without one.
func New(ctx context.Context, flags Flags, limits []reservations.Limit, logger *slog.Logger) (*Observer, error) {
	labels, err := keyLabels(flags.Keys, limits)
	if err != nil {
		return nil, err
	}
	if flags.Address == "" {
		return nil, nil //nolint:nilnil // metrics are off
	}
	local, err := localAddress(flags.Address)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", local)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w; another process may listen there: name another port", flags.Address, err)
	}
	return &Observer{
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

// Close ends the listening of an Observer that does not serve.
func (o *Observer) Close() {
	if o != nil {
		_ = o.listener.Close() // served, it is closed already
	}
}

// Mongo has the commands of MongoDB measured.
func (o *Observer) Mongo(settings *options.ClientOptions) {
	if o != nil {
		o.metrics.Mongo(settings)
	}
}

// Measure has the calls of Redis and of the store measured.
func (o *Observer) Measure(queue redis.UniversalClient, buckets *connect.Buckets) {
	if o != nil {
		queue.AddHook(o.metrics.RedisHook())
		buckets.Store = o.metrics.Store(buckets.Store)
	}
}

// Events returns the hooks of the process: the others, and the one of the metrics.
func (o *Observer) Events(others ...func(worker.Event)) []func(worker.Event) {
	if o == nil {
		return others
	}
	return append(others, o.metrics.Event)
}

// Serve serves the metrics, and /healthz and /readyz beside them, until stop is called.
func (o *Observer) Serve(
	ctx context.Context, queue redis.UniversalClient, limiter *reservations.Limiter,
	records func(context.Context) (documents.Store, error),
) (stop func(), err error) {
	if o == nil {
		return func() {}, nil
	}
	if err = o.metrics.Watch(queue, limiter); err != nil {
		return nil, err
	}
	counted, err := records(ctx)
	if err != nil {
		return nil, err
	}
	o.metrics.WatchRecords(counted)
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
func (o *Observer) guard(next http.Handler) http.Handler {
	address, here := o.listener.Addr().(*net.TCPAddr)
	if !here || !address.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback.Host(r.Host) {
			http.Error(w, "the metrics answer on loopback only: ask 127.0.0.1 or localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// handler serves the metrics, and whether the process lives and is ready.
func (o *Observer) handler(ctx context.Context, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: scrapeTimeout / 2, EnableOpenMetrics: true,
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := o.metrics.Ready()
		if ctx.Err() != nil {
			err = errors.New("the process stops")
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
