package reservations

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/text/nearest"
)

// callTimeoutDefault bounds one call to the store.
const callTimeoutDefault = 5 * time.Second

// Config holds the settings of a Limiter beside its limits. The zero value is ready to use.
type Config struct {
	// CallTimeout bounds one call to the store; a call that takes longer counts as ErrUnavailable. Defaults to 5
	// seconds.
	CallTimeout time.Duration
	// Resolve returns a limit that is not configured, e.g. a user's own, from the program's database. Its answer counts
	// for 5 seconds in this process, so a changed limit is followed after that time; its Name is set to name. An error
	// that matches ErrUnknownLimit means that there is none. Any other error, and a limit that is not valid, is
	// ErrUnavailable: nothing starts, and tasks wait. It is called for one key at a time, for many keys at once, and
	// for at most CallTimeout. Overrides do not apply to its limits, and a limit's Shards must not change.
	Resolve func(ctx context.Context, name, key string) (Limit, error)
}

// Limiter lets calls start under a set of limits, whose buckets a Store keeps. It checks charges before anything is
// sent. Safe for concurrent use.
type Limiter struct {
	holder // of starts, for Headway's own packages

	starts *starter
}

type holder = inside.Holder[*starter]

// New returns a Limiter for limits that keeps its buckets in store. The error joins every fault of every limit and
// matches ErrInvalidLimit. A program that has no store at hand passes NoStore.
func New(store Store, limits []Limit, config Config) (*Limiter, error) {
	set, err := newLimitSet(limits)
	if store == nil {
		fault := &FieldError{Field: "store", Problem: "must not be nil: pass memstore.New() for one process, " +
			"redisstore.New(client) or mongostore.New(db, options) for a fleet, or reservations.NoStore()"}
		err = errors.Join(fault, err)
	}
	if err != nil {
		return nil, err
	}
	config.CallTimeout = cmp.Or(max(0, config.CallTimeout), callTimeoutDefault)
	starts := &starter{buckets: newBuckets(store, newLimits(set, config), config.CallTimeout)}
	starts.keeper.buckets = starts.buckets
	return &Limiter{holder: inside.Hold(starts), starts: starts}, nil
}

// Validate reports why the charge of a new task could never be served; see IsPermanent. It also refuses a priority that
// the limit does not have, where the limit has priorities, by ErrInvalidCharge: a task that is queued already is served
// with the lowest one. It asks neither the store nor Config.Resolve: a limit that only Resolve knows is checked when
// the bucket is asked.
func (l *Limiter) Validate(c Charge) error {
	var limit Limit
	err := c.validateNames()
	if err == nil {
		limit, err = l.starts.servable(c)
	}
	if _, there := limit.Priorities[c.Priority]; err != nil || there || c.Priority == "" || len(limit.Priorities) == 0 {
		return err
	}
	return c.fault(ErrInvalidCharge, "", "priority %q is unknown in limit %q: %s", c.Priority, c.Limit,
		nearest.There(c.Priority, slices.Sorted(maps.Keys(limit.Priorities))))
}

// Reset makes the bucket full again, in all its shards, and ends a block. The error is an IsPermanent one, or matches
// ErrUnavailable.
func (l *Limiter) Reset(ctx context.Context, limit, key string) error {
	b := l.starts.buckets
	limits, err := b.each(ctx, Charge{Limit: limit, Key: key})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	return sideBySide(len(limits), func(i int) error {
		return bucket.Unavailable(limits[i].Name, key, b.store.Reset(ctx, limits[i].Name, key))
	})
}
