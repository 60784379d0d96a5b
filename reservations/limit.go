package reservations

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

const (
	// MaxFlow bounds the name of a flow, in bytes.
	MaxFlow = 128
	// MinWeight is the smallest weight of a flow and of a priority.
	MinWeight = 0.001
	// MaxWeight is the largest weight of a flow and of a priority.
	MaxWeight = 1000
	// MaxPriorities bounds the priorities of one limit.
	MaxPriorities = 16
)

const (
	// MaxBlockDefault is the longest block of a limit that does not say more: one wrong Retry-After must not stop a
	// fleet for a day.
	MaxBlockDefault = 10 * time.Minute
	// MaxBlockMost bounds Limit.MaxBlock.
	MaxBlockMost = 24 * time.Hour
	// OrdinaryShareDefault is the share of a limit that ordinary tasks keep while urgent ones wait.
	OrdinaryShareDefault = 0.1
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
	// MaxBlock is the longest that a provider's Retry-After stops the limit, at most 24 hours. The refusals of one caller
	// stop it for no longer in all: see Limiter.Refuse. Zero means 10 minutes.
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

// validateFlows finds faults of weights and priorities.
func (l Limit) validateFlows(fault func(field, format string, args ...any)) {
	weight := func(field string, w float64) {
		if !(w >= MinWeight && w <= MaxWeight) {
			fault(field, "weight %v must be from %v to %v", w, MinWeight, MaxWeight)
		}
	}
	for _, flow := range slices.Sorted(maps.Keys(l.Weights)) {
		if problem := bucket.NameProblem("flow", flow, MaxFlow); problem != "" || flow == "" {
			fault("weights", "%s", cmp.Or(problem, "a flow must have a name"))
			continue
		}
		weight("weights."+flow, l.Weights[flow])
	}
	if n := len(l.Priorities); n > MaxPriorities {
		fault("priorities", "%d priorities must be at most %d", n, MaxPriorities)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Priorities)) {
		if !nameShape.MatchString(name) {
			fault("priorities", "name %.64q must be 1 to 64 letters, digits, '_', '-' or '.'", name)
			continue
		}
		weight("priorities."+name, l.Priorities[name])
	}
}

// Rules is the limit as a bucket has it, for Headway's own packages.
func (l Limit) Rules() bucket.Limit {
	rules := bucket.Limit{
		Name: l.Name, Meters: make([]bucket.Meter, len(l.Meters)),
		MaxWait: l.MaxWait, MaxBlock: cmp.Or(l.MaxBlock, MaxBlockDefault),
		OrdinaryShare: cmp.Or(l.OrdinaryShare, OrdinaryShareDefault),
	}
	for k, m := range l.Meters {
		rules.Meters[k] = m.rules()
	}
	return rules
}
