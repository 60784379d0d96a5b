package fleet

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/cmd/internal/observe"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/setup/tracing"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

type runSettings struct {
	file        string
	concurrency int
	logLevel    string
	logFormat   string
	metrics     observe.Flags

	// changed says that the file has changed; nil in `headway worker`. Restart is called
	// where what has changed needs another worker. StandIn is the address that replaces a provider's; its
	// key is OPENAI_API_KEY. Confined keeps all calls on this machine.
	changed  <-chan struct{}
	restart  func()
	standIn  func(provider string) string
	confined bool
}

func workerCommand(env cli.Environment) *cobra.Command {
	var s runSettings
	c := &cobra.Command{
		Use:     "worker",
		Aliases: []string{"run"},
		Short:   "Serve the queue until a signal stops it",
		Long: `Worker takes tasks from the queues of headway.yaml and runs them within the limits. Start as many as you
like, on as many machines as you like: they share the limits through MongoDB, or through Redis (buckets: redis in
headway.yaml).

Ctrl-C or SIGTERM stops it gracefully: it takes no more tasks, lets running tasks finish (shutdown_timeout), and gives
back to the queue what did not. A second signal ends it at once. Tasks are never lost; one that was running when a
worker was killed is run again.

"headway reload" makes all workers read their files again. SIGHUP does so for this one if it has no terminal; a terminal
that is closed stops the worker as SIGTERM does. The limits of the file count from then on; with any fault nothing
changes. Queues, concurrency, shutdown_timeout, max_refusals, unserved, providers, http, estimates and recurring change
only with a restart. What "headway limits set" has set counts before the file.

SIGUSR1 switches the log between debug and --log-level, or info where that is debug, and logs the new level.

--metrics serves /metrics for Prometheus, and /healthz and /readyz, on loopback unless the address has another host.
Its clients see the names of limits, queues and keys: give it another host only in a network of your own. Traces are
sent if OTEL_EXPORTER_OTLP_ENDPOINT is set. docs/observing.md has more.`,
		Example: `  headway worker
  headway worker --config prod.yaml --concurrency 200 --log-format json
  headway worker --metrics 127.0.0.1:9464 --metrics-keys tenant=50`,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), s, env) },
	}
	configFlag(c, &s.file)
	c.Flags().IntVar(&s.concurrency, "concurrency", 0, "tasks to run at once; 0 takes it from the file")
	c.Flags().StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&s.logFormat, "log-format", "text", "text or json")
	s.metrics.Add(c)
	return c
}

func serve(ctx context.Context, s runSettings, env cli.Environment) error {
	logger, level, err := cli.NewLogger(env.Err, s.logLevel, s.logFormat)
	if err != nil {
		return err
	}
	if s.concurrency < 0 {
		return cli.Usage("--concurrency: %d must not be negative; 0 takes it from %s", s.concurrency, s.file)
	}
	said, err := config.Load(s.file)
	if err != nil {
		return err
	}
	defer switchLevel(ctx, level, logger)()
	watch, err := observe.New(ctx, s.metrics, said.Limits, logger)
	if err != nil {
		return err
	}
	defer watch.Close()
	if s.confined {
		env.Getenv = confined(said, env.Getenv)
	}
	stopTraces, err := tracing.Start(ctx, "headway-worker", env.Getenv, logger)
	if err != nil {
		return err
	}
	defer stopTraces()
	return serveWith(ctx, s, said, env, watch, logger)
}

// serveWith connects to the services and runs the worker.
func serveWith(
	ctx context.Context, s runSettings, said config.Config, env cli.Environment, watch *observe.Observer,
	logger *slog.Logger,
) (err error) {
	c := s.over(said)
	var hosts *http.Client // nil: the hosts themselves
	if s.confined {
		hosts = &http.Client{Transport: newDevHosts()}
	}
	calls, err := newClients(c, env.Getenv, hosts, logger)
	if err != nil {
		return err
	}
	defer calls.close()
	queue, buckets, closeStores, err := openStores(ctx, env, c.Buckets, logger, watch.Mongo)
	if err != nil {
		return err
	}
	defer func() { closeStores(err) }()
	watch.Measure(queue, buckets)
	limiter, err := reservations.New(buckets, c.Limits, reservations.Config{})
	if err != nil {
		return err
	}
	settings := worker.Config{
		Concurrency: c.Concurrency, Queues: c.Queues, ShutdownTimeout: c.ShutdownTimeout, Logger: logger,
		MaxRefusals: c.MaxRefusals, Unserved: c.Unserved, Overrides: buckets.Overrides,
		Scheduler: scheduler.Config{Recurring: c.Recurring},
	}
	recorder, err := records(ctx, buckets, &settings)
	if err != nil {
		return err
	}
	defer recorder.Close()
	settings.Events = watch.Events(settings.Events...)
	w, err := worker.New(queue, limiter, settings)
	if err != nil {
		return err
	}
	recorder.TakeBack(ctx, queue, w.Scheduler().Delete)
	stopLearning, err := calls.handle(ctx, w, c, queue, buckets, recorder, logger)
	if err != nil {
		return err
	}
	defer stopLearning()
	stopWatching, err := watch.Serve(ctx, queue, limiter, buckets.Documents)
	if err != nil {
		return err
	}
	defer stopWatching()
	reload := &reloader{
		file: s.file, current: said, set: limiter.SetLimits, log: logger, restart: s.restart,
		register: register.New(queue), terminal: cli.HasTerminal(), uncalled: calls.uncalled,
	}
	defer reload.onHangup(ctx, s.changed)()
	return runLogged(ctx, w, logger, s.file, inside.Of(limiter).Limits().Names())
}

// over is the configuration with what the flags say, and with stand-ins of the providers.
func (s runSettings) over(c config.Config) config.Config {
	if s.concurrency > 0 {
		c.Concurrency = s.concurrency
	}
	if s.confined {
		c.Recurring = nil
	}
	if s.standIn != nil {
		c.Providers = slices.Clone(c.Providers)
		for i, p := range c.Providers {
			c.Providers[i].BaseURL, c.Providers[i].Key = s.standIn(p.Name), "OPENAI_API_KEY"
		}
	}
	return c
}

// runLogged runs the worker until ctx ends, and logs its settings and how long it ran.
func runLogged(ctx context.Context, w *worker.Worker, logger *slog.Logger, file string, limits []string) error {
	logger.InfoContext(ctx, "settings are read", slog.String("file", file), slog.Any("limits", limits))
	began := time.Now()
	defer context.AfterFunc(ctx, func() {
		logger.InfoContext(ctx, "a second Ctrl-C or SIGTERM ends this worker at once; its tasks run again")
	})()
	err := w.Run(ctx)
	logger.InfoContext(ctx, "worker has stopped", slog.Duration("after", time.Since(began)))
	return err
}

// openStores connects to the queue and the buckets, and logs where the buckets are. CloseAll takes the result of the
// worker. After worker.ErrLeftBehind it closes nothing: asynq's server still stops, and panics without its client.
func openStores(
	ctx context.Context, env cli.Environment, kept string, log *slog.Logger, change func(*options.ClientOptions),
) (queue redis.UniversalClient, buckets *connect.Buckets, closeAll func(ran error), err error) {
	if queue, err = connect.Redis(ctx, env.Getenv); err != nil {
		return nil, nil, nil, err
	}
	if buckets, err = connect.Open(ctx, env.Getenv, kept, queue, env.Err, change); err != nil {
		return nil, nil, nil, errors.Join(err, queue.Close())
	}
	log.InfoContext(ctx, "buckets are open", slog.String("store", connect.Kept(env.Getenv, kept)),
		slog.String("records", connect.RecordsIn(env.Getenv)))
	closeAll = func(ran error) {
		if !errors.Is(ran, worker.ErrLeftBehind) {
			_ = errors.Join(buckets.Close(context.WithoutCancel(ctx)), queue.Close()) // nothing is left to do over it
		}
	}
	return queue, buckets, closeAll, nil
}

// records has the worker keep results of batches and records of dead tasks.
func records(ctx context.Context, buckets *connect.Buckets, settings *worker.Config) (*record.Recorder, error) {
	results, err := buckets.Batches(ctx)
	if err != nil {
		return nil, err
	}
	records, err := buckets.Dead(ctx)
	if err != nil {
		return nil, err
	}
	recorder := record.New(results, settings.Logger, chat.Request)
	settings.Dead, settings.Events = records, []func(worker.Event){recorder.Event}
	return recorder, nil
}
