package worker

import (
	"context"
	"log/slog"
	"reflect"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/reservations"
)

const (
	// compareEvery is how often a worker compares its limits with the limits of the others.
	compareEvery = time.Minute
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
	db       *asynqdb.DB

	warned bounded.Map[any, time.Time] // when last, by kind
}

func newFleet(
	client redis.UniversalClient, limiter *reservations.Limiter, types func() []string, log *slog.Logger,
) *fleet {
	return &fleet{
		register: register.New(client), id: uuid.NewString(), name: register.ProcessName(), types: types, limiter: limiter,
		log: log, db: asynqdb.New(client),
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
		if err == nil {
			f.welcome(ctx, member)
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
	set := inside.Of(f.limiter).Limits()
	var configured []reservations.Limit
	for _, name := range set.Names() {
		if limit, err := set.Configured(name); err == nil {
			configured = append(configured, limit)
		}
	}
	m.Limits = register.ByName(configured)
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
