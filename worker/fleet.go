package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bounded"
	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/internal/register"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	// unservedAfter is for how long workers that can't serve a task return it to the queue. After that the task is
	// archived, unless a live worker of the fleet can serve it.
	unservedAfter = 10 * time.Minute
	unservedText  = "no worker of the fleet could serve the task for %v"
	// returnPauseMin and returnPauseMost bound how long such a task waits for its next delivery: as long as it was
	// returned so far.
	returnPauseMin, returnPauseMost = time.Second, 30 * time.Second
	// returnedKept is how much longer Redis stores when the task was returned first.
	returnedKept = time.Hour
	// compareEvery is how often a worker compares its limits with the limits of the others.
	compareEvery = time.Minute
	// warnEvery is how often a worker logs a need that it can't serve.
	warnEvery = time.Minute
	// registerTimeout bounds one call of the register.
	registerTimeout = 5 * time.Second
)

// fleet is the worker as a member of its fleet: its entry in the register, and what the others can serve. It is safe
// for concurrent use.
type fleet struct {
	register *register.Register
	id, name string
	types    func() []string       // nil: any type may have a handler
	limiter  *reservations.Limiter // nil: no limit is known here
	log      *slog.Logger

	warned bounded.Map[any, time.Time] // when last, by kind
}

func newFleet(
	client redis.UniversalClient, limiter *reservations.Limiter, types func() []string, log *slog.Logger,
) *fleet {
	return &fleet{
		register: register.New(client), id: uuid.NewString(), name: register.ProcessName(), types: types, limiter: limiter,
		log: log,
	}
}

// run renews the entry of the worker until ctx ends.
func (f *fleet) run(ctx context.Context) {
	var last register.Member
	var compared time.Time
	for {
		member := f.member()
		err := f.renew(ctx, member)
		if err != nil {
			f.log.LogAttrs(ctx, slog.LevelDebug, "worker is not in the register", slog.Any("error", err))
		} else if !reflect.DeepEqual(member, last) || time.Since(compared) >= compareEvery {
			f.compare(ctx, member)
			last, compared = member, time.Now()
		}
		if pause.For(ctx, register.RenewEvery) != nil {
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = f.register.Leave(leaving, f.id) // the entry ends anyway
			return
		}
	}
}

func (f *fleet) renew(ctx context.Context, m register.Member) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	return f.register.Renew(ctx, f.id, m)
}

// member describes this worker.
func (f *fleet) member() register.Member {
	m := register.Member{Name: f.name}
	if f.types != nil {
		m.Types = f.types()
	}
	if f.limiter == nil {
		return m
	}
	set := f.limiter.Limits()
	var configured []reservations.Limit
	for _, name := range set.Names() {
		if limit, err := set.Configured(name); err == nil {
			configured = append(configured, limit)
		}
	}
	m.Limits = register.LimitTexts(configured)
	m.AnyLimit = f.limiter.Validate(reservations.Charge{Limit: "headway-any-limit"}) == nil // only with Config.Resolve
	return m
}

// compare warns of limits that other workers have with other settings.
func (f *fleet) compare(ctx context.Context, own register.Member) {
	others, err := f.members(ctx)
	if err != nil {
		return
	}
	for _, other := range others {
		for _, d := range own.Differences(other) {
			if other.Name == own.Name || !f.first(d, 0) {
				continue
			}
			f.log.LogAttrs(ctx, slog.LevelWarn, "a worker has other settings for a limit: the fleet may start as much as "+
				"the larger one allows", slog.String("limit", d.Limit), slog.String("meter", d.Meter),
				slog.String("here", d.Here), slog.String("there", d.There), slog.String("worker", other.Name))
		}
	}
}

func (f *fleet) members(ctx context.Context) ([]register.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	return f.register.Members(ctx)
}

// first reports whether a warning is due: the first one of its kind, or one after the pause. A pause of zero never
// ends.
func (f *fleet) first(kind any, pause time.Duration) (due bool) {
	f.warned.Change(kind, func(last *time.Time) {
		if due = last.IsZero() || pause > 0 && time.Since(*last) >= pause; due {
			*last = time.Now()
		}
	})
	return due
}

// needIn returns what a task needs that this worker lacks and another worker may have.
func needIn(d *delivery, err error) (need register.Need, ok bool) {
	charge, isCharge := errors.AsType[*reservations.ChargeError](err)
	switch {
	case errors.Is(err, ErrUnknownType):
		return register.Need{Type: d.task.Type()}, true
	case isCharge && errors.Is(err, reservations.ErrUnknownLimit):
		return register.Need{Limit: charge.Charge.Limit}, true
	case isCharge && errors.Is(err, reservations.ErrMeterLeftOut):
		return register.Need{Limit: charge.Charge.Limit, Meter: charge.Meter, Without: true}, true
	case isCharge && errors.Is(err, reservations.ErrUnknownMeter):
		return register.Need{Limit: charge.Charge.Limit, Meter: charge.Meter}, true
	}
	return register.Need{}, false
}

// unable ends a delivery whose task can't run on this worker. A task that another worker may serve goes back to the
// queue, with no retry used. It is archived once no live worker can serve it and workers have returned it for
// unservedAfter.
func (g *guard) unable(ctx context.Context, d *delivery, cause error) error {
	need, ok := needIn(d, cause)
	if !ok {
		return g.refuse(ctx, d, cause)
	}
	soon, cancel := ahead(ctx, halfMargin)
	defer cancel()
	returned, err := g.fleet.register.Returned(soon, d.handle().String(), need, unservedAfter+returnedKept)
	if err == nil && returned >= unservedAfter {
		var members []register.Member
		members, err = g.fleet.members(soon)
		serves := func(m register.Member) bool { return m.Serves(need) }
		if err == nil && !slices.ContainsFunc(members, serves) {
			return g.refuse(ctx, d, tasks.Permanent(fmt.Errorf(unservedText+": %w", unservedAfter, cause)))
		}
	}
	g.logReturned(ctx, d, need, errors.Join(cause, err))
	pause := min(max(returnPauseMin, returned), returnPauseMost)
	return g.deferTask(ctx, d, engine.Stop{Missing: "worker " + g.fleet.name + " has no " + need.String(), After: pause})
}

// logReturned logs that a task goes back for another worker: once a minute as a warning for each need.
func (g *guard) logReturned(ctx context.Context, d *delivery, need register.Need, cause error) {
	level := slog.LevelDebug
	if g.fleet.first(need, warnEvery) {
		level = slog.LevelWarn
	}
	g.logTask(ctx, d, level, "task returned to the queue, this worker can't serve it; further ones are logged at debug "+
		"level for a minute", slog.String("missing", need.String()), slog.Any("error", cause))
}
