package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// clients make the calls of tasks: to the providers, and to the hosts that the file lists.
type clients struct {
	providers config.Providers
	calls     map[string]*llm.Client // by provider; a provider whose key is not set has none
	requests  *web.Client
}

// newClients makes no calls. What is missing in the environment is a *cli.UsageError. Without a provider a worker has
// to have hosts that it may call. A nil hosts calls the hosts of HTTP requests themselves.
func newClients(
	c config.Config, getenv func(string) string, hosts *http.Client, log *slog.Logger,
) (clients, error) {
	providers, err := providersOf(c, getenv)
	all := clients{providers: providers, calls: map[string]*llm.Client{}}
	memory := intake.New(0) // of the whole process
	var missing []string
	for _, p := range providers {
		if p.Lacks(getenv) {
			missing = append(missing, p.Key)
			continue
		}
		if fault := cli.CheckVariable(getenv, p.Key); fault != nil {
			return clients{}, fault
		}
		if err != nil {
			return clients{}, err
		}
		settings := p.Client(getenv)
		settings.Memory, settings.Logger = memory, log
		if all.calls[p.Name], err = llm.NewClient(settings); err != nil {
			return clients{}, providerFault(p, err)
		}
	}
	if len(all.calls) == 0 && len(c.HTTP.AllowHosts) == 0 {
		return clients{}, cli.Usage("%s is not set: the provider would refuse every request; `export %s=...` and start "+
			"again. A worker for HTTP requests only needs none: list their hosts in http.allow_hosts",
			strings.Join(missing, " or "), missing[0])
	}
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Secrets)) {
		if getenv(name) == "" {
			return clients{}, cli.Usage("%s is not set: http.secrets lists it for tasks; `export %s=...` and start again, or "+
				"take it off the list", name, name)
		}
		if fault := cli.CheckVariable(getenv, name); fault != nil {
			return clients{}, fault
		}
	}
	settings := c.HTTP.Client(getenv)
	settings.Memory, settings.HTTPClient = memory, hosts
	settings.Providers = c.Providers.Addresses()
	if all.requests, err = web.NewClient(settings); err != nil {
		return clients{}, cli.Usage("http.%w", err)
	}
	return all, nil
}

// providersOf returns the providers of the file. A file without any leaves that to the environment; the error is then
// a fault of OPENAI_BASE_URL, a *cli.UsageError.
func providersOf(c config.Config, getenv func(string) string) (config.Providers, error) {
	all := c.Called(getenv)
	if len(c.Providers) > 0 {
		return all, nil
	}
	if _, err := llm.NewClient(llm.Config{BaseURL: all[0].BaseURL}); err != nil {
		return all, providerFault(all[0], err)
	}
	return all, nil
}

// providerFault names the variable or the setting that has a fault of the client of a provider.
func providerFault(p config.Provider, err error) error {
	fault := (*reservations.FieldError)(nil)
	switch {
	case !errors.As(err, &fault):
		return &cli.UsageError{Err: err}
	case fault.Field == "api_key":
		return cli.Usage("%s: the key %s", p.Key, fault.Problem)
	case p.Name == "":
		return cli.Usage("OPENAI_BASE_URL: %s", fault.Problem)
	}
	return cli.Usage("providers.%s.%w", p.Name, err)
}

func (c clients) close() {
	for _, client := range c.calls {
		client.Close()
	}
	c.requests.Close()
}

// provider is the chat.Provider of the worker.
func (c clients) provider(limit string) (client *llm.Client, missing string) {
	p, known := c.providers.For(limit)
	switch client = c.calls[p.Name]; {
	case !known && limit == "":
		return nil, "provider for calls without a limit"
	case !known:
		return nil, fmt.Sprintf("provider for limit %q", limit)
	}
	return client, p.Key
}

// uncalled returns the limits whose calls this worker sends back, since it lacks their provider or its key. The empty
// name is that of calls without a limit.
func (c clients) uncalled(limits []reservations.Limit) (names []string) {
	for _, l := range append([]reservations.Limit{{}}, limits...) {
		if client, _ := c.provider(l.Name); client == nil {
			names = append(names, l.Name)
		}
	}
	return names
}

// handle lets the worker run every type of task, learn from the answers and share that with the fleet, until stop,
// which waits.
func (c clients) handle(
	ctx context.Context, w *worker.Worker, settings config.Config, queue redis.UniversalClient,
	buckets *connect.Buckets, recorder *record.Recorder, log *slog.Logger,
) (stop func(), err error) {
	learning, stop, err := learn(ctx, settings.Estimates, buckets, log)
	if err != nil {
		return nil, err
	}
	for _, p := range c.providers {
		if c.calls[p.Name] == nil {
			log.WarnContext(ctx, p.Key+" is not set: this worker sends all calls of the provider back to the queue",
				slog.String("provider", p.Name))
		}
	}
	chat.HandleAll(w, c.provider, c.requests, recorder, learning, &chat.Unusable{Redis: queue, Log: log},
		settings.Prices)
	return stop, nil
}

// learn lets the worker learn from its answers and share that with the fleet, until stop, which waits.
func learn(
	ctx context.Context, c config.Estimates, buckets *connect.Buckets, log *slog.Logger,
) (learning *chat.Learning, stop func(), err error) {
	learner, err := estimates.New(estimates.Config{Quantile: c.Quantile})
	if err != nil {
		return nil, nil, &cli.UsageError{Err: err}
	}
	keeper, err := buckets.Estimates(ctx, learner, log)
	if err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it learns from what ends after the signal too
	var group sync.WaitGroup
	group.Go(func() { keeper.Run(running) })
	return &chat.Learning{Learner: learner, Limits: c.Learn}, func() {
		cancel()
		group.Wait()
	}, nil
}
