package reservations

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// LimitSet is what a Limiter goes by at one moment: the limits as they are configured, and the overrides above them. It never
// changes; a change makes another. Safe for concurrent use.
type LimitSet struct {
	configured map[string]Limit
	names      []string   // sorted
	given      []Override // all that were set, those of unknown limits too: SetLimits may bring these
	inForce    map[string]Limit
	keyed      map[string]Limit // by bucket; only those whose key has an override of its own
	known      []Override       // those of given that are in force
}

// newLimitSet checks the limits. The error joins every fault of every limit and matches ErrInvalidLimit.
func newLimitSet(limits []Limit) (*LimitSet, error) {
	s := &LimitSet{configured: map[string]Limit{}}
	var faults []error
	for _, limit := range limits {
		if err := limit.Validate(); err != nil {
			faults = append(faults, err)
		}
		if _, twice := s.configured[limit.Name]; twice {
			faults = append(faults, &LimitError{Limit: limit.Name, Err: &FieldError{Field: "name", Problem: "is there twice"}})
		}
		limit.Meters = slices.Clone(limit.Meters)
		s.configured[limit.Name] = limit
	}
	s.inForce = s.configured
	s.names = slices.Sorted(maps.Keys(s.configured))
	return s, errors.Join(faults...)
}

// Names are the names of the limits, sorted.
func (s *LimitSet) Names() []string { return slices.Clone(s.names) }

// Configured is the limit of that name without any override, or an error that matches ErrUnknownLimit.
func (s *LimitSet) Configured(name string) (Limit, error) { return s.find(s.configured, name) }

// Limit is the limit of that name as it is for every key that has no override of its own, or an error that matches ErrUnknownLimit.
func (s *LimitSet) Limit(name string) (Limit, error) { return s.find(s.inForce, name) }

// For is the limit of that name as it is for a key: an override of the key counts before one of the limit, and that
// before what is configured, meter by meter. The error matches ErrUnknownLimit.
func (s *LimitSet) For(name, key string) (Limit, error) {
	if len(s.keyed) > 0 {
		if limit, ok := s.keyed[BucketName(name, key)]; ok {
			return limit, nil
		}
	}
	return s.find(s.inForce, name)
}

// Overrides are those in force, sorted by limit, key and meter.
func (s *LimitSet) Overrides() []Override { return slices.Clone(s.known) }

// SameFor says whether two sets have the same limit for a key. A limit that neither has is the same.
func (s *LimitSet) SameFor(other *LimitSet, name, key string) bool {
	a, errA := s.For(name, key)
	b, errB := other.For(name, key)
	return (errA != nil) == (errB != nil) && a.equal(b)
}

// Revision names what the set says, whoever set it and when: equal in all processes that go by the same limits.
func (s *LimitSet) Revision() string {
	h := sha256.New()
	for _, name := range s.names {
		writeLimit(h, s.configured[name])
	}
	for _, o := range s.known {
		fmt.Fprintf(h, "%q %q %q %v %d %v\n", o.Limit, o.Key, o.Meter, o.Rate, o.Period, o.Capacity)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// writeLimit tells limits apart that differ in anything, whatever the order of their meters.
func writeLimit(w io.Writer, l Limit) {
	meters := slices.SortedFunc(slices.Values(l.Meters), func(a, b Meter) int { return strings.Compare(a.Name, b.Name) })
	l.Meters = nil
	_, _ = fmt.Fprintf(w, "%+v %+v\n", l, meters) // a hash takes all
}

func (s *LimitSet) find(limits map[string]Limit, name string) (Limit, error) {
	limit, ok := limits[name]
	if !ok {
		return Limit{}, &ChargeError{Charge: Charge{Limit: name}, Err: ErrUnknownLimit, Problem: fmt.Sprintf("%q is not configured; there are %q", name, s.names)}
	}
	return limit, nil
}

// bucket is Limit.bucket of the limit for the charge's key.
func (s *LimitSet) bucket(c Charge) (Limit, error) {
	limit, err := s.For(c.Limit, c.Key)
	if err != nil {
		return Limit{}, err
	}
	return limit.bucket(c)
}

// bucket is the limit as the store has to see it for the bucket that the charge names. A charge of a limit with shards has to name one.
func (l Limit) bucket(c Charge) (Limit, error) {
	if n := l.shards(); c.Shard < 0 || c.Shard > n || (n == 1) != (c.Shard == 0) {
		return Limit{}, &ChargeError{Charge: c, Err: ErrInvalidCharge, Problem: fmt.Sprintf("shard %d of limit %q, which has %d; set Charge.Shard from Outcome.Shard", c.Shard, c.Limit, n)}
	}
	return l.forKey(c.Key).shard(c.Shard), nil
}

// validate tells why a charge could never be served. Overrides have no say: what the limit serves as it is configured, it
// serves with any of them.
func (s *LimitSet) validate(c Charge) error {
	limit, err := s.Configured(c.Limit)
	if err != nil {
		return err
	}
	if err := c.Validate(limit); err != nil {
		return err
	}
	return c.validateShard(limit)
}

// replaced is a set with other limits and the same overrides. What it can't have is an error that matches ErrInvalidLimit.
func (s *LimitSet) replaced(limits []Limit) (*LimitSet, error) {
	next, err := newLimitSet(limits)
	faults := []error{err}
	for _, name := range next.names {
		is, was := next.configured[name], s.configured[name]
		if was.Name != "" && is.shards() != was.shards() {
			problem := fmt.Sprintf("can't change from %d to %d while processes run; stop the fleet, or give the limit another name", was.shards(), is.shards())
			faults = append(faults, &LimitError{Limit: name, Err: &FieldError{Field: "shards", Problem: problem}})
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	next, _ = next.overridden(s.given) // SetOverrides has told of those that are not known
	return next, nil
}

// SetLimits replaces the limits: all of them, or with an error (every fault of every limit; it matches ErrInvalidLimit) none. It takes
// effect with the next call; calls under way end by the limits they began with. Overrides stay. The number of shards of a limit
// can't change so. Those who wait are told by Revise. A task whose limit is no longer there, or no longer serves its charge, is refused
// as after a restart with the same limits.
func (l *Limiter) SetLimits(limits []Limit) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	next, err := l.set.Load().replaced(limits)
	if err == nil {
		l.set.Store(next)
	}
	return err
}

// Limits are those in force at this moment, all together.
func (l *Limiter) Limits() *LimitSet { return l.set.Load() }

// equal says whether two limits are the same in everything.
func (l Limit) equal(o Limit) bool { return reflect.DeepEqual(l, o) }
