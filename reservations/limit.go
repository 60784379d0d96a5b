package reservations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

const (
	// maxFlow bounds the name of a flow, in bytes.
	maxFlow = 128
	// minWeight is the smallest weight of a flow and of a priority.
	minWeight = 0.001
	// maxWeight is the largest weight of a flow and of a priority.
	maxWeight = 1000
	// maxPriorities bounds the priorities of one limit.
	maxPriorities = 16
)

// ordinaryShareDefault is the share of a limit that ordinary tasks keep while urgent ones wait.
const ordinaryShareDefault = 0.1

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
	// stop it for no longer in all: see RetryAfterError. Zero means 10 minutes.
	MaxBlock time.Duration
	// OrdinaryShare is the part of the limit that ordinary tasks keep while urgent ones wait, between 0 and 1. Zero
	// means 0.1. It counts only where a meter has Headroom.
	OrdinaryShare float64
	// IgnoreFlows ignores the flows that charges name: the tasks of a tenant are first come, first served. Otherwise
	// flows share the part of their tenant.
	IgnoreFlows bool
	// Weights are the weights of tenants (TenantOf), by the names or the keys of their buckets, and of flows
	// (Charge.Flow). A waiting tenant of weight 3 gets three times the tokens of one of weight 1. 0.001 to 1000;
	// one without a weight has 1. A task that waits when its weight changes keeps its place.
	Weights map[string]float64
	// Priorities are the weights of named priorities (Charge.Priority), 0.001 to 1000, at most 16.
	// They share the limit first, however many tenants each has, and each shares its part among its tenants. None means
	// one priority.
	Priorities map[string]float64
	// Allow says which tenants (TenantOf) may use a priority, or be "urgent" (Charge.Urgent): by the names or the keys
	// of their buckets. Another task or direct call counts for the lowest priority, or as ordinary. All may use what
	// Allow does not have.
	Allow map[string][]string
	// Shards splits each bucket into this number of shards that share its meters evenly, for a bucket that is too hot
	// for one document. At most 256; zero and one mean one. The limit still holds exactly. A charge can be no
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
	if l.MaxBlock < 0 || l.MaxBlock > bucket.MaxBlockMost {
		fault("max_block", "%v must be from 0 to %v; zero means %v", l.MaxBlock, bucket.MaxBlockMost, bucket.MaxBlockDefault)
	}
	if s := l.OrdinaryShare; s != 0 && !(s > 0 && s < 1) {
		fault("ordinary_share", "%v must be between 0 and 1, or zero for %v", s, ordinaryShareDefault)
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
		if !(w >= minWeight && w <= maxWeight) {
			fault(field, "weight %v must be from %v to %v", w, minWeight, maxWeight)
		}
	}
	for _, flow := range slices.Sorted(maps.Keys(l.Weights)) {
		if problem := bucket.NameProblem("flow", flow, maxFlow); problem != "" || flow == "" {
			fault("weights", "%s", cmp.Or(problem, "a flow must have a name"))
			continue
		}
		weight("weights."+flow, l.Weights[flow])
	}
	if n := len(l.Priorities); n > maxPriorities {
		fault("priorities", "%d priorities must be at most %d", n, maxPriorities)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Priorities)) {
		if !nameShape.MatchString(name) {
			fault("priorities", "name %.64q must be 1 to 64 letters, digits, '_', '-' or '.'", name)
			continue
		}
		weight("priorities."+name, l.Priorities[name])
	}
	for _, name := range slices.Sorted(maps.Keys(l.Allow)) {
		if _, known := l.Priorities[name]; !known && name != allowUrgent {
			fault("allow", "%.64q is neither %q nor one of the priorities", name, allowUrgent)
		}
	}
}

// allowUrgent is the name in Limit.Allow of what Charge.Urgent asks for.
const allowUrgent = "urgent"

// allows says whether a tenant may use a name.
func (l Limit) allows(name, tenant string) bool {
	tenants, bounded := l.Allow[name]
	_, key, _ := strings.Cut(tenant, ":")
	return !bounded || tenant != "" && (slices.Contains(tenants, tenant) || key != "" && slices.Contains(tenants, key))
}

// Permitted are the charges of a call without what their limits do not allow its tenant: see Limit.Allow. A limit that
// can't be read allows nothing.
func (l *limits) Permitted(ctx context.Context, charges []Charge) []Charge {
	charges = slices.Clone(charges)
	for i := range charges {
		c := &charges[i]
		if !c.Urgent && c.Priority == "" {
			continue
		}
		whole := *c
		whole.Shard = 0
		limit, err := l.limitOf(ctx, whole)
		if err != nil {
			c.Urgent, c.Priority = false, ""
			continue
		}
		tenant := TenantOf(charges, c.Limit)
		c.Urgent = c.Urgent && limit.allows(allowUrgent, tenant)
		if !limit.allows(c.Priority, tenant) {
			c.Priority = ""
		}
	}
	return charges
}

var _ = bucket.SetRules(func(limit any) bucket.Limit {
	l, _ := limit.(Limit)
	return l.rules()
})

// rules is the limit as a bucket has it. Headway's own packages have it by bucket.Rules.
func (l Limit) rules() bucket.Limit {
	rules := bucket.Limit{
		Name: l.Name, Meters: make([]bucket.Meter, len(l.Meters)),
		MaxWait: l.MaxWait, MaxBlock: cmp.Or(l.MaxBlock, bucket.MaxBlockDefault),
		OrdinaryShare: cmp.Or(l.OrdinaryShare, ordinaryShareDefault),
	}
	for k, m := range l.Meters {
		rules.Meters[k] = m.rules()
	}
	return rules
}
