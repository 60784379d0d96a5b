package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/estimates"
	"github.com/headway-go/headway/internal/intake"
	"github.com/headway-go/headway/internal/record"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// clients make the calls of tasks: to the provider that the environment names, and to the hosts that the file lists.
type clients struct {
	provider *llm.Client // nil without a key: chats and calls are left to other workers
	requests *web.Client
}

// newClients makes no calls. What is missing in the environment is a *cli.UsageError. Without a key a worker has to
// have hosts that it may call.
func newClients(c config.Config, getenv func(string) string, log *slog.Logger) (clients, error) {
	key := getenv("OPENAI_API_KEY")
	if key == "" && len(c.HTTP.AllowHosts) == 0 {
		return clients{}, &cli.UsageError{Err: errors.New("OPENAI_API_KEY is not set: the provider would refuse " +
			"every request; `export OPENAI_API_KEY=...` and start again. " +
			"A worker for HTTP requests only needs none: list their hosts in http.allow_hosts")}
	}
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Secrets)) {
		if getenv(name) == "" {
			return clients{}, &cli.UsageError{Err: fmt.Errorf("%s is not set: http.secrets lists it for tasks; "+
				"`export %s=...` and start again, or take it off the list", name, name)}
		}
	}
	memory := intake.New(0) // of the whole process
	var client *llm.Client
	if key != "" {
		err := checkBaseURL(getenv)
		if err != nil {
			return clients{}, err
		}
		if client, err = llm.NewClient(llm.Config{
			BaseURL: getenv("OPENAI_BASE_URL"), APIKey: key, Memory: memory,
			Logger: log,
		}); err != nil {
			return clients{}, &cli.UsageError{Err: err}
		}
	}
	settings := c.HTTP.Client(getenv)
	settings.Memory = memory
	requests, err := web.NewClient(settings)
	if err != nil {
		return clients{}, &cli.UsageError{Err: err}
	}
	return clients{provider: client, requests: requests}, nil
}

// checkBaseURL wants the provider's address to be one, where one is set. The error is a *cli.UsageError.
func checkBaseURL(getenv func(string) string) error {
	fault := (*reservations.FieldError)(nil)
	if err := (llm.Config{BaseURL: getenv("OPENAI_BASE_URL"), APIKey: "checked apart"}).Validate(); errors.As(err,
		&fault) {
		return &cli.UsageError{Err: fmt.Errorf("OPENAI_BASE_URL: %s", fault.Problem)}
	}
	return nil
}

func (c clients) close() {
	if c.provider != nil {
		c.provider.Close()
	}
	c.requests.Close()
}

// handle lets the worker run every type of task, learn from the answers and share that with the fleet, until stop,
// which waits.
func (c clients) handle(
	ctx context.Context, w *worker.Worker, settings config.Estimates, buckets *connect.Buckets,
	recorder *record.Recorder, log *slog.Logger,
) (stop func(), err error) {
	learning, stop, err := learn(ctx, settings, buckets, log)
	if err != nil {
		return nil, err
	}
	if c.provider == nil {
		log.WarnContext(ctx, "OPENAI_API_KEY is not set: this worker makes HTTP requests only, and sends all calls of "+
			"the provider back to the queue")
	}
	chat.HandleAll(w, c.provider, c.requests, recorder, learning)
	return stop, nil
}

// learn lets the worker learn from its answers and, where there is MongoDB, share that with the fleet, until stop,
// which waits.
func learn(
	ctx context.Context, c config.Estimates, buckets *connect.Buckets, log *slog.Logger,
) (learning *chat.Learning, stop func(), err error) {
	learner, err := estimates.New(estimates.Config{Quantile: c.Quantile})
	if err != nil {
		return nil, nil, &cli.UsageError{Err: err}
	}
	if !buckets.InMongo() {
		return &chat.Learning{Learner: learner, Limits: c.Learn}, func() {}, nil
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
