package reservations

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/internal/text/shell"
)

// Override replaces the rate of one meter while processes run: of a limit, or of one of its keys. The rest of the limit
// stays. An adaptive meter has that fixed rate until the override is gone.
type Override struct {
	// Limit and Meter name what is replaced.
	Limit, Meter string
	// Key names one bucket of the limit. Empty means all keys that have no override of their own.
	Key string
	// Rate tokens come back every Period. Both must be positive, and zero for MeterInFlight.
	Rate   float64
	Period time.Duration `bson:"-"`
	// Capacity is the largest burst. Zero keeps the capacity that is configured for the meter, and where none is, it is
	// one period's worth of the new rate. None keeps no tokens. Of MeterInFlight it is how many calls may run at once.
	Capacity float64
	// SetAt and By say when the override was set, and by which person. They are for people.
	SetAt time.Time `bson:"set_at"`
	By    string
}

// String names what is replaced: "openai.requests", or "openai.requests of key acme".
func (o Override) String() string {
	name := o.Limit + "." + o.Meter
	if o.Key == "" {
		return name
	}
	return fmt.Sprintf("%s of key %s", name, o.Key)
}

// SetOverrides replaces all overrides by the list; of two for the same meter and key the later one counts. They take
// effect with the next call. Faulty overrides are left out: the error joins a *ChargeError for each, which says how to
// delete it, and matches ErrUnknownLimit, ErrUnknownMeter or ErrInvalidLimit. The others count all the same. An
// override of an unknown limit comes into force when SetLimits adds that limit.
//
// An override never refuses a task: what the limit serves as it is configured, it serves with the override. If the new
// capacity is smaller, max_reserved grows by as much: a charge above the new capacity waits for a full bucket, starts
// alone, and is paid back at the new rate before others start. An override does not admit larger charges than the
// configured limit.
func (l *limits) SetOverrides(overrides []Override) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	next, err := l.set.Load().overridden(overrides)
	l.replace(next)
	return err
}

// overridden is the set with other overrides. The error is that of SetOverrides.
func (s *limitSet) overridden(given []Override) (*limitSet, error) {
	next := &limitSet{configured: s.configured, inForce: maps.Clone(s.configured), given: slices.Clone(given)}
	var faults []error
	last := map[Override]Override{} // by limit, key and meter
	for _, o := range given {
		if err := s.check(o); err != nil {
			faults = append(faults, o.fault(err))
			continue
		}
		last[Override{Limit: o.Limit, Key: o.Key, Meter: o.Meter}] = o
	}
	next.known = slices.SortedFunc(maps.Values(last), compareOverrides)
	for _, o := range next.known { // an override of a whole limit comes before the overrides of its keys
		limit, _ := next.For(o.Limit, o.Key) // checked above
		next.inForce[bucket.Name(o.Limit, o.Key)] = limit.overridden(s.configured[o.Limit], o)
	}
	return next, errors.Join(faults...)
}

// fault says that an override can't be in force, and which command deletes it.
func (o Override) fault(err error) error {
	var flags []string
	if o.Key != "" {
		flags = []string{"--key", o.Key}
	}
	unset := shell.Command("headway limits unset", o.Limit+"."+o.Meter, flags...)
	err = fmt.Errorf("override %v: %w; `%s` deletes it", o, err, unset)
	return &ChargeError{Charge: Charge{Limit: o.Limit, Key: o.Key}, Meter: o.Meter, Err: err}
}

// check says why an override can't be in force.
func (s *limitSet) check(o Override) error {
	limit, ok := s.configured[o.Limit]
	if !ok {
		return fmt.Errorf("%w: %q is not configured; %s", ErrUnknownLimit, o.Limit, nearest.There(o.Limit, s.Names()))
	}
	if limit.meter(o.Meter) < 0 {
		return fmt.Errorf("%w: limit %q has no meter %q; %s", ErrUnknownMeter, o.Limit, o.Meter,
			nearest.There(o.Meter, limit.meterNames()))
	}
	if o.Meter == MeterInFlight && (o.Rate != 0 || o.Period != 0) {
		return limitFault(o.Limit, o.Meter, "has no rate; set how many calls may run at once, e.g. 30")
	}
	if o.Meter == MeterInFlight && o.Capacity == 0 { // it would keep what is configured
		o.Capacity = None
	}
	if problem := bucket.NameProblem("key", o.Key, bucket.MaxKey); problem != "" {
		return limitFault(o.Limit, "key", problem)
	}
	return limit.overridden(limit, o).Validate()
}

// overridden is the limit with one of its meters as the override says, by what is configured for that meter.
func (l Limit) overridden(configured Limit, o Override) Limit {
	was := configured.Meters[configured.meter(o.Meter)]
	is := was
	is.Rate, is.Period, is.Adaptive = o.Rate, o.Period, Adaptive{}
	if o.Capacity != 0 {
		is.Capacity = o.Capacity
	}
	if most := was.rules().MaxReserved; was.MaxReserved != 0 { // the largest charge stays the same
		is.MaxReserved = cmp.Or(max(most, was.Cap()+most-is.Cap()), None)
	}
	l.Meters = slices.Clone(l.Meters)
	l.Meters[l.meter(o.Meter)] = is
	return l
}

// meter is the position of a meter, -1 where there is none.
func (l Limit) meter(name string) int {
	return slices.IndexFunc(l.Meters, func(m Meter) bool { return m.Name == name })
}

func (l Limit) meterNames() []string {
	names := make([]string, len(l.Meters))
	for k, m := range l.Meters {
		names[k] = m.Name
	}
	return names
}

func compareOverrides(a, b Override) int {
	return cmp.Or(strings.Compare(a.Limit, b.Limit), strings.Compare(a.Key, b.Key), strings.Compare(a.Meter, b.Meter))
}
