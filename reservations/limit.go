package reservations

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

const (
	// Unlimited is the zero value of a Meter's MaxReserved: the bucket promises tokens as far ahead as tasks ask.
	Unlimited = 0.
	// NoReserved as a Meter's MaxReserved lets it promise none: a task that finds no room waits without a promise.
	NoReserved = -math.MaxFloat64
)

// NoBurst as a Meter's Capacity makes it a pure queue: no tokens are kept, so each task starts when the tokens of the
// task before it have come back.
const NoBurst = -math.MaxFloat64

const (
	// MaxBlockDefault is the longest block of a limit that does not say more: one wrong Retry-After must not stop a
	// fleet for a day.
	MaxBlockDefault = 10 * time.Minute
	// MaxBlockMost bounds Limit.MaxBlock.
	MaxBlockMost = 24 * time.Hour
	// OrdinaryShareDefault is the share of a limit that ordinary tasks keep while urgent ones wait.
	OrdinaryShareDefault = 0.1
)

// SettleMode says what a settlement may do to the bucket. It has to match how the provider counts.
type SettleMode string

const (
	// SettleAdjust gives back what an estimate took too much, and takes what it took too little. It is right where the
	// provider corrects its own count when a call ends. The zero value of SettleMode means SettleAdjust.
	SettleAdjust SettleMode = "adjust"
	// SettleKeep only takes. It is right where the provider counts the estimate and never corrects it downwards.
	SettleKeep SettleMode = "keep"
)

// Limit is a named rule that all tasks naming it share. It is a value: copy it freely, but do not change Meters,
// Weights or Priorities once a Limiter has it.
type Limit struct {
	// Name identifies the limit in charges, configuration, logs and stored buckets. Letters, digits, '_', '-' and '.';
	// at most 64.
	Name string
	// Meters are counted together: a task starts when every meter has room. At least one; names differ.
	Meters []Meter
	// Settle says how corrections are counted. The zero value is SettleAdjust.
	Settle SettleMode
	// MaxWait bounds how far ahead in time the bucket promises tokens, for all meters together; MaxReserved bounds each
	// meter in tokens. A task that would wait longer joins the waitlist without a promise. Zero means no bound.
	MaxWait time.Duration
	// MaxBlock is the longest that a provider's Retry-After stops the limit, at most 24 hours. A worker has the
	// refusals of one task stop it for no longer in all. Zero means 10 minutes.
	MaxBlock time.Duration
	// OrdinaryShare is the part of the limit that ordinary tasks keep while urgent ones wait, between 0 and 1. Zero
	// means OrdinaryShareDefault. It counts only where a meter has Headroom.
	OrdinaryShare float64
	// Weights are the weights of flows (Charge.Flow) that share the limit while they wait: a flow of weight 3 gets three
	// times the tokens of one of weight 1. MinWeight to MaxWeight; a flow without one has 1. A task that waits when its
	// weight changes keeps its place.
	Weights map[string]float64
	// Priorities are the weights of named priorities (Charge.Priority), MinWeight to MaxWeight, at most MaxPriorities.
	// They share the limit first, however many flows each has, and each shares its part among its flows. None means one
	// priority.
	Priorities map[string]float64
	// Shards splits each bucket into this number of shards that share its meters evenly, for a bucket that is too hot
	// for one document. At most MaxShards; zero and one mean one. The limit still holds exactly. A charge can be no
	// larger than the capacity of one shard. A task waits in the waitlist of one shard although another may have room,
	// so tasks of different shards may change places. Each shard's capacity must hold a token, and a window's rate must
	// be a multiple of Shards. Shards can't change at run time.
	Shards int
}

// Meter is one rate of a Limit: Rate tokens every Period, up to Capacity, that come back evenly (a token bucket) or all
// at once when a window ends (a fixed window). InFlight returns the one without a rate.
type Meter struct {
	// Name identifies the meter within its limit, e.g. "requests" or "tokens". Same letters as a limit's name.
	Name string
	// Rate is the number of tokens that come back every Period. Must be positive, from 1e-15 to 1e15.
	Rate float64
	// Period is what Rate counts for. Must be positive.
	Period time.Duration
	// Capacity is the most tokens the bucket holds: the largest burst. Zero means Rate, one period's worth. NoBurst is its
	// own value.
	Capacity float64
	// MaxReserved bounds how many tokens the bucket promises ahead of their time: the deficit of its reserved balance.
	// Zero means Unlimited. NoReserved is its own value.
	MaxReserved float64
	// Kind says how the meter fills. The zero value is KindBucket.
	Kind Kind
	// Start is when a window starts, and with it all that follow every Period: the time since the Unix epoch, or what
	// is left of it after whole periods, e.g. 8h for days that start at 8:00 UTC. A moment in the future is that of the
	// first full window: a new bucket lacks the rate of each window before it. Whole milliseconds. Zero for token
	// buckets.
	Start time.Duration
	// Spread derives Start from the bucket's name instead, so that the windows of many buckets do not all start at
	// once, and all machines agree. The Limiter derives it; stores see a Start.
	Spread bool
	// Headroom is how many tokens of the capacity only urgent charges use: an ordinary charge starts when the balance
	// holds as many more. Less than the capacity. Zero means none. Token buckets only.
	Headroom float64
	// Settle says how corrections of this meter are counted. The zero value is that of the Limit.
	Settle SettleMode
	// Adaptive lets the rate find itself: Rate is then the lowest one, and that of a new bucket. Token buckets only. The
	// zero value means a fixed rate.
	Adaptive Adaptive
}

// PerSecond returns a meter of rate tokens a second with a capacity of one second's worth and unlimited reservations.
func PerSecond(name string, rate float64) Meter {
	return Meter{Name: name, Rate: rate, Period: time.Second}
}

// PerMinute returns a meter of rate tokens a minute with a capacity of one minute's worth and unlimited reservations.
func PerMinute(name string, rate float64) Meter {
	return Meter{Name: name, Rate: rate, Period: time.Minute}
}

// Cap is the capacity in force: Capacity, or Rate where Capacity is zero, or zero where it is NoBurst.
func (m Meter) Cap() float64 {
	switch m.Capacity {
	case 0:
		return m.Rate
	case NoBurst:
		return 0
	}
	return m.Capacity
}

func (m Meter) reservedText() string {
	if m.MaxReserved == Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(m.rules().MaxReserved)
}

var nameShape = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// Validate reports every fault of the limit, each naming its field; the error matches ErrInvalidLimit.
func (l Limit) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &FieldError{Limit: l.Name, Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if !nameShape.MatchString(l.Name) {
		fault("name", "%q must be 1 to 64 letters, digits, '_', '-' or '.'", l.Name)
	}
	l.Settle.validate(fault)
	if l.MaxWait < 0 {
		fault("max_wait", "%v must not be negative; zero means no bound", l.MaxWait)
	}
	if l.MaxBlock < 0 || l.MaxBlock > MaxBlockMost {
		fault("max_block", "%v must be from 0 to %v; zero means %v", l.MaxBlock, MaxBlockMost, MaxBlockDefault)
	}
	if s := l.OrdinaryShare; s != 0 && !(s > 0 && s < 1) {
		fault("ordinary_share", "%v must be between 0 and 1, or zero for %v", s, OrdinaryShareDefault)
	}
	l.validateShards(fault)
	if len(l.Meters) == 0 {
		fault("meters", "needs at least one meter")
	}
	seen := map[string]bool{}
	for _, m := range l.Meters {
		if !nameShape.MatchString(m.Name) {
			fault("meters", "meter name %q must be 1 to 64 letters, digits, '_', '-' or '.'", m.Name)
		}
		if seen[m.Name] {
			fault("meters", "meter %q is there twice", m.Name)
		}
		seen[m.Name] = true
		if m.inFlight() || m.Name == MeterInFlight {
			m.validateInFlight(fault)
			continue
		}
		m.validate(func(field, format string, args ...any) { fault(m.Name+"."+field, format, args...) })
	}
	l.validateFlows(fault)
	if len(faults) == 0 {
		return nil
	}
	return &limitError{limit: l.Name, err: errors.Join(faults...)}
}

func (m Meter) validate(fault func(field, format string, args ...any)) {
	if !positive(m.Rate) {
		fault("rate", "%v must be a positive number of tokens, from %g to %g", m.Rate, smallestAmount, bucket.LargestAmount)
	}
	if m.Period <= 0 {
		fault("period", "%v must be positive, e.g. 1m", m.Period)
	}
	switch {
	case m.Capacity == NoBurst && m.windowed():
		fault("capacity", "a fixed window can't be without a burst: all of it comes back at once")
	case m.Capacity == NoBurst && m.MaxReserved == NoReserved:
		fault("max_reserved", "must not be zero without a capacity: all that starts is owed")
	case m.Capacity != 0 && m.Capacity != NoBurst && !positive(m.Capacity):
		fault("capacity", "%v must be a number of tokens from %g to %g; left out it is one period's worth",
			m.Capacity, smallestAmount, bucket.LargestAmount)
	}
	switch {
	case m.Headroom == 0:
	case !(m.Headroom > 0 && m.Headroom < m.Cap()):
		fault("headroom", "%v must not be negative, and less than the capacity, %v", m.Headroom, m.Cap())
	case m.windowed():
		fault("headroom", "a fixed window can't keep headroom for urgent tasks, only a token bucket can")
	}
	m.validateWindow(fault)
	m.validateAdaptive(fault)
	m.Settle.validate(fault)
	if !(m.MaxReserved >= 0 && m.MaxReserved <= math.MaxFloat64) && m.MaxReserved != NoReserved {
		fault("max_reserved", "%v must not be negative; left out it is unlimited", m.MaxReserved)
	}
}

func (s SettleMode) validate(fault func(field, format string, args ...any)) {
	if s != "" && s != SettleAdjust && s != SettleKeep {
		fault("settle", "%q must be %q or %q", s, SettleAdjust, SettleKeep)
	}
}

// smallestAmount bounds rates and capacities from below: waits, which divide by them, stay finite, and with them the
// bucket.
const smallestAmount = 1e-15

func positive(x float64) bool { return x >= smallestAmount && x <= bucket.LargestAmount }
