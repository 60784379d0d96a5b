// Package gateway has the commands that serve clients in any language: `headway gateway` and `headway keys`.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/files"
	live "github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// followEvery is how often the file and the overrides are looked at.
const followEvery = time.Second

// FilesNone is Settings.Files of a gateway without files and batches.
const FilesNone = "none"

// Settings are what the command line says of a gateway.
type Settings struct {
	File            string
	Limit           string
	MaxHold         time.Duration
	MaxBody         int64
	MaxMemory       int64
	Large           bool
	Connections     int           // at most; zero means any number
	ShutdownTimeout time.Duration // for calls that run
	Cert, Key       string        // files, for TLS
	Logger          *slog.Logger
	// Keys are the callers. Nil serves everybody.
	Keys *keys.Book
	// Files is the folder with the contents of files. Empty stores them where results are, FilesNone serves no files and
	// no batches. MaxFile bounds a file, and MaxStored all files of a tenant, in bytes; zero means the default of the
	// store.
	Files              string
	MaxFile, MaxStored int64
	// Events are called at each step of a call.
	Events []func(worker.Event)
	// Announce is called when all settings are found good, before the first call. It may be nil.
	Announce func()
	// StandIn is the address that replaces a provider's; its key is OPENAI_API_KEY. Nil calls the providers themselves.
	StandIn func(provider string) string
}

// providers are the providers of the file, or of the environment. A provider without its key is a fault.
func (s *Settings) providers(c config.Config, getenv func(string) string) ([]live.Provider, error) {
	var all []live.Provider
	for _, p := range c.Called(getenv) {
		if s.StandIn != nil {
			p.BaseURL, p.Key = s.StandIn(p.Name), "OPENAI_API_KEY"
		}
		if p.Lacks(getenv) {
			return nil, cli.Usage("%s is not set: the provider would refuse every request; `export %s=...` and start again",
				p.Key, p.Key)
		}
		if err := cli.CheckVariable(getenv, p.Key); err != nil {
			return nil, err
		}
		all = append(all, live.Provider{
			Name: p.Name, BaseURL: p.BaseURL, APIKey: getenv(p.Key), Limits: p.Limits, Models: p.Models, Sync: p.Sync,
		})
	}
	return all, nil
}

// handler is the gateway itself.
func (s *Settings) handler(
	opened *session.Session, batching *live.Batching, getenv func(string) string,
) (*live.Gateway, error) {
	providers, err := s.providers(opened.Config, getenv)
	if err != nil {
		return nil, err
	}
	c := live.Config{
		Limiter: opened.Limiter, Waitlist: inside.Of(opened.Scheduler), Providers: providers, Limit: s.Limit,
		Prices: opened.Config.Prices, MaxHold: s.MaxHold, MaxBody: s.MaxBody, Memory: s.MaxMemory, Large: s.Large,
		Logger: s.Logger, Batching: batching, Events: s.Events,
	}
	if s.Keys != nil {
		c.Keys = s.Keys
	}
	g, err := live.New(c)
	if err != nil {
		return nil, fault(err)
	}
	return g, nil
}

// Serve serves on a listener until ctx ends. Calls that run then have ShutdownTimeout to end.
func Serve(ctx context.Context, on net.Listener, s *session.Session, settings Settings, env cli.Environment) error {
	defer func() { _ = on.Close() }()
	batching, err := settings.batching(ctx, s, env.Getenv)
	if err != nil {
		return err
	}
	if batching != nil {
		defer func() { _ = batching.Files.Close() }()
	}
	g, err := settings.handler(s, batching, env.Getenv)
	if err != nil {
		return err
	}
	server := g.Server()
	if settings.Cert != "" {
		pair, fault := tls.LoadX509KeyPair(settings.Cert, settings.Key)
		if fault != nil {
			return cli.Usage("--tls-cert, --tls-key: %w", fault)
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	if err = s.Scheduler.Start(ctx); err != nil {
		return err
	}
	if settings.Announce != nil {
		settings.Announce()
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	follow := settings.follow(s)
	group.Go(func() { everySecond(following, follow, settings.faults()) })
	group.Go(func() { g.RunBatches(following) })
	if settings.Connections > 0 {
		on = netutil.LimitListener(on, settings.Connections)
	}
	group.Go(func() {
		select {
		case <-ctx.Done():
		case <-following.Done():
		}
		settings.end(context.WithoutCancel(ctx), g, server)
	})
	if settings.Cert != "" {
		err = server.ServeTLS(on, "", "")
	} else {
		err = server.Serve(on)
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// batching opens what files and batches need. It is nil with FilesNone.
func (s *Settings) batching(
	ctx context.Context, opened *session.Session, getenv func(string) string,
) (_ *live.Batching, err error) {
	if s.Files == FilesNone {
		return nil, nil //nolint:nilnil // none is wanted
	}
	b := &live.Batching{Scheduler: opened.Scheduler, Queue: opened.Queue}
	if b.Results, err = opened.Buckets.Batches(ctx); err != nil {
		return nil, err
	}
	if b.Records, err = opened.Buckets.Documents(ctx); err != nil {
		return nil, err
	}
	contents, bounds := files.InDocuments(b.Records, nil), files.Bounds{File: s.MaxFile, Owner: s.MaxStored}
	if s.Files != "" {
		if contents, err = files.InFolder(s.Files, nil); err != nil {
			return nil, cli.Usage("--files: %w", err)
		}
	} else if connect.RecordsIn(getenv) == "Redis" {
		bounds.File, bounds.Owner = cmp.Or(bounds.File, files.MostInRedis), cmp.Or(bounds.Owner, files.StoredInRedis)
	}
	b.Files = files.New(b.Records, contents, bounds, nil)
	if err = b.EnsureIndexes(ctx); err != nil {
		return nil, errors.Join(err, b.Files.Close())
	}
	return b, nil
}

// end ends the waits of all calls, and gives the calls that run their time.
func (s *Settings) end(ctx context.Context, g *live.Gateway, server *http.Server) {
	g.Stop()
	ending, done := context.WithTimeout(ctx, s.ShutdownTimeout)
	defer done()
	if server.Shutdown(ending) != nil {
		_ = server.Close()
	}
	if err := g.Close(ending); err != nil {
		s.Logger.WarnContext(ctx, "not all is settled", slog.Any("error", err))
	}
}

// follow returns the function that applies what has changed: the file, the overrides, the keys.
func (s *Settings) follow(opened *session.Session) func(context.Context) error {
	follow := opened.Follow(s.File)
	return func(ctx context.Context) error {
		err := follow(ctx)
		if s.Keys != nil {
			err = errors.Join(err, s.Keys.Refresh(ctx))
		}
		return err
	}
}

// faults is where faults of the settings are logged. The worker of `headway dev` reports them itself.
func (s *Settings) faults() *slog.Logger {
	if s.StandIn != nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}

// fault names the flag or the setting that is at fault.
func fault(err error) error {
	if field, ok := errors.AsType[*reservations.FieldError](err); ok && field.Field == "limit" {
		return cli.Usage("--limit: %s", field.Problem)
	}
	return &cli.UsageError{Err: err}
}

// everySecond follows the settings until ctx ends.
func everySecond(ctx context.Context, follow func(context.Context) error, log *slog.Logger) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var last string
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := follow(ctx)
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != last {
			log.WarnContext(ctx, "the settings can't be followed, the last ones stay", slog.String("error", text))
		}
		last = text
	}
}
