package fleet

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
)

// errNoLimits refuses a file that some editor has emptied, and not written yet: the worker could serve no task with a
// limit.
var errNoLimits = errors.New("limits: there are none any more; a worker that is to have none has to be restarted")

// reloader reads headway.yaml again while the worker runs.
type reloader struct {
	file    string
	current config.Config // as the file said
	set     func([]reservations.Limit) error
	log     *slog.Logger
	restart func() // starts another worker; nil where only a person can

	terminal bool // the process has one: SIGHUP says that it was closed

	// uncalled returns the limits whose provider the worker can't call; nil: none.
	uncalled func([]reservations.Limit) []string
	register *register.Register // brings the requests of `headway reload`
	looked   bool               // for a request
	answered string             // the request that was answered last
}

// requestsEvery is how often a worker looks for a request of `headway reload`.
const requestsEvery = 2 * time.Second

// onHangup reloads for each SIGHUP and for each value of changed, until stop is called. Stop waits for a reload that is
// under way. A process with a terminal gets no SIGHUP here: it means that the terminal was closed, see cli.Main.
func (r *reloader) onHangup(ctx context.Context, changed <-chan struct{}) (stop func()) {
	signals := make(chan os.Signal, 1)
	if !r.terminal {
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(ctx, signals, changed) })
	return func() {
		signal.Stop(signals)
		cancel()
		watching.Wait()
	}
}

func (r *reloader) watch(ctx context.Context, signals <-chan os.Signal, changed <-chan struct{}) {
	ticker := time.NewTicker(requestsEvery)
	defer ticker.Stop()
	r.answer(ctx)
	for {
		select {
		case <-ctx.Done():
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = r.register.Unread(leaving, register.ProcessName()) // it ends anyway
			return
		case <-signals:
			_, _ = r.reload(ctx) // is logged
		case <-changed:
			_, _ = r.reload(ctx) // is logged
		case <-ticker.C:
			r.answer(ctx)
		}
	}
}

// answer reloads if `headway reload` asks for it, and answers. A request that Redis could not pass on is seen later. A
// request from before the start is answered too, without a reload unless the file has changed since.
func (r *reloader) answer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, register.RenewEvery)
	defer cancel()
	var uncalled []string
	if r.uncalled != nil {
		uncalled = r.uncalled(r.current.Limits)
	}
	request, err := r.register.Requested(ctx, register.ProcessName(), uncalled...)
	if err != nil {
		return
	}
	first := !r.looked
	r.looked = true
	if request == "" || request == r.answered {
		return
	}
	a := register.Answer{Process: register.ProcessName()}
	if !first || !r.upToDate() {
		if a.Restart, err = r.reload(ctx); err != nil {
			a.Fault = err.Error()
		}
	}
	if err := r.register.Answer(ctx, request, a); err != nil {
		return // the next look reloads again, which changes nothing, and answers
	}
	r.answered = request
}

// upToDate says whether the file is as it was read.
func (r *reloader) upToDate() bool {
	is, err := config.Load(r.file)
	return err == nil && reflect.DeepEqual(is, r.current)
}

// reload applies what the file says now: all of it that can change, or with any fault nothing. It
// returns the changed settings that a person has to restart the worker for.
func (r *reloader) reload(ctx context.Context) (restart []string, err error) {
	next, err := config.Load(r.file)
	if err == nil && len(next.Limits) == 0 && len(r.current.Limits) > 0 {
		err = errNoLimits
	}
	if err == nil {
		err = r.set(next.Limits)
	}
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelError, "settings can't be reloaded, nothing has changed",
			slog.String("file", r.file), slog.Any("error", err))
		return nil, err
	}
	for _, l := range r.current.Limits {
		if !slices.ContainsFunc(next.Limits, func(n reservations.Limit) bool { return n.Name == l.Name }) {
			r.log.LogAttrs(ctx, slog.LevelWarn, "a limit is gone, tasks that name it go back to the queue",
				slog.String("limit", l.Name))
		}
	}
	restart = r.fixed(ctx, next)
	r.log.LogAttrs(ctx, slog.LevelInfo, "settings are reloaded", slog.String("file", r.file),
		slog.Int("limits", len(next.Limits)),
		slog.Bool("limits_changed", !reflect.DeepEqual(r.current.Limits, next.Limits)))
	r.current.Limits = next.Limits // what could not change is logged each time
	if len(restart) > 0 && r.restart != nil {
		r.restart()
		return nil, nil
	}
	return restart, nil
}

// fixed returns the changed settings that need another worker. It warns of each if only a person can start one.
func (r *reloader) fixed(ctx context.Context, next config.Config) (changed []string) {
	for _, s := range []struct {
		field   string
		was, is any
	}{
		{"buckets", r.current.Buckets, next.Buckets},
		{"queues", r.current.Queues, next.Queues},
		{"concurrency", r.current.Concurrency, next.Concurrency},
		{"shutdown_timeout", r.current.ShutdownTimeout, next.ShutdownTimeout},
		{"max_refusals", r.current.MaxRefusals, next.MaxRefusals},
		{"unserved", r.current.Unserved, next.Unserved},
		{"providers", r.current.Providers, next.Providers},
		{"http", r.current.HTTP, next.HTTP},
		{"estimates", r.current.Estimates, next.Estimates},
		{"recurring", r.current.Recurring, next.Recurring},
	} {
		if reflect.DeepEqual(s.was, s.is) {
			continue
		}
		changed = append(changed, s.field)
		attrs := []slog.Attr{slog.String("field", s.field)}
		if s.field != "recurring" { // payloads belong in no log
			attrs = append(attrs, slog.Any("running", s.was), slog.Any("file", s.is))
		}
		if r.restart == nil {
			r.log.LogAttrs(ctx, slog.LevelWarn, "a setting changes only when the worker restarts", attrs...)
		}
	}
	return changed
}
