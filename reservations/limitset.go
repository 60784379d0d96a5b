package reservations

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/text/nearest"
)

// limitSet holds the limits of a Limiter at one moment: the configured limits, and the overrides above them. It never
// changes; a change makes another limitSet. Safe for concurrent use.
type limitSet struct {
	configured map[string]Limit // by name
	inForce    map[string]Limit // by name, and by bucket where its key has an override of its own
	given      []Override       // all that were set, also for unknown limits: SetLimits may add these limits
	known      []Override       // the part of given that is in force, sorted
}

// newLimitSet checks the limits. The error joins every fault of every limit and matches ErrInvalidLimit.
func newLimitSet(limits []Limit) (*limitSet, error) {
	s := &limitSet{configured: map[string]Limit{}}
	var faults []error
	for _, limit := range limits {
		if err := limit.Validate(); err != nil {
			faults = append(faults, err)
		}
		if _, twice := s.configured[limit.Name]; twice {
			faults = append(faults, limitFault(limit.Name, "name", "is there twice"))
		}
		limit.Meters = slices.Clone(limit.Meters)
		limit.Weights, limit.Priorities = maps.Clone(limit.Weights), maps.Clone(limit.Priorities)
		limit.Allow = maps.Clone(limit.Allow)
		s.configured[limit.Name] = limit
	}
	s.inForce = s.configured
	return s, errors.Join(faults...)
}

// Names are the names of the limits, sorted.
func (s *limitSet) Names() []string { return slices.Sorted(maps.Keys(s.configured)) }

// Configured is the limit of that name without any override, or an error that matches ErrUnknownLimit.
func (s *limitSet) Configured(name string) (Limit, error) {
	limit, ok := s.configured[name]
	if !ok {
		c := Charge{Limit: name}
		return Limit{}, c.fault(ErrUnknownLimit, "", "%q is not configured; %s", name, nearest.There(name, s.Names()))
	}
	return limit, nil
}

// For is the limit of that name as it is for a key: an override of the key counts before one of the limit, and that
// before what is configured, meter by meter. The empty key has no overrides of its own. The error matches
// ErrUnknownLimit.
func (s *limitSet) For(name, key string) (Limit, error) {
	if _, err := s.Configured(name); err != nil { // the name of a bucket is none
		return Limit{}, err
	}
	if len(s.inForce) > len(s.configured) {
		if limit, ok := s.inForce[bucket.Name(name, key)]; ok {
			return limit, nil
		}
	}
	return s.inForce[name], nil
}

// Overrides are the overrides in force, sorted by limit, key and meter.
func (s *limitSet) Overrides() []Override { return slices.Clone(s.known) }

// serving is the limit of a charge, for its key. The error says why the charge can never be served. Overrides do not
// count for that: what the limit serves as it is configured, it serves with any of them.
func (s *limitSet) serving(c Charge) (Limit, error) {
	limit, err := s.Configured(c.Limit)
	if err == nil {
		err = c.validate(limit)
	}
	if err != nil {
		return Limit{}, err
	}
	return s.For(c.Limit, c.Key)
}

// replaced is a set with other limits and the same overrides. The error joins all faults and matches ErrInvalidLimit.
func (s *limitSet) replaced(limits []Limit) (*limitSet, error) {
	next, err := newLimitSet(limits)
	faults := []error{err}
	for _, name := range next.Names() {
		is, was := next.configured[name], s.configured[name]
		if was.Name != "" && is.shards() != was.shards() {
			problem := fmt.Sprintf("can't change from %d to %d while processes run; "+
				"stop the fleet, or give the limit another name", was.shards(), is.shards())
			faults = append(faults, limitFault(name, "shards", problem))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	next, _ = next.overridden(s.given) // SetOverrides has returned the faults
	return next, nil
}

// SetLimits replaces the limits: all of them, or with an error none. The error joins every fault of every limit and
// matches ErrInvalidLimit. The new limits take effect with the next call; calls under way end by the limits they began
// with. Overrides stay. The number of shards of a limit can't change. A bucket follows a changed limit with its next
// request, and waiting tasks start by the new ones. A task whose limit is gone, or no longer serves its charge, is
// refused. Workers of the Limiter log what has changed.
func (l *Limiter) SetLimits(limits []Limit) error {
	known := l.starts.limits
	known.changing.Lock()
	defer known.changing.Unlock()
	next, err := known.set.Load().replaced(limits)
	if err == nil {
		known.replace(next)
	}
	return err
}
