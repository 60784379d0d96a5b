package reservations

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/text/nearest"
)

// Tokens are amounts by the name of a meter. A charge names each meter of its limit, with zero for nothing; only
// MeterInFlight may be left out, and counts one. In a settlement a meter that is not named counts as estimated, and
// MeterInFlight counts nothing.
type Tokens map[string]float64

// Unused is zero for each meter of the charges: the usage of a call that was never made. It is empty where there are no
// charges, never nil.
func Unused(charges ...Charge) Tokens {
	none := Tokens{}
	for _, c := range charges {
		for meter := range c.Tokens {
			none[meter] = 0
		}
	}
	return none
}

// Charge is what one task takes from one limit.
type Charge struct {
	// Limit is the name of the limit.
	Limit string `json:"limit"`
	// Key chooses the bucket of the limit, e.g. a tenant or a model: at most 512 bytes. The empty key is the bucket that
	// all share.
	Key string `json:"key,omitempty"`
	// Tokens are taken from each meter when the task starts, and corrected when it settles. Each meter of the limit is
	// named, also with zero; otherwise the charge is ErrMeterLeftOut. MeterInFlight alone may be left out.
	Tokens Tokens `json:"tokens"`
	// Urgent lets the task use the headroom of the limit, and start before ordinary ones. It has no effect where the
	// limit has no headroom.
	Urgent bool `json:"urgent,omitempty"`
	// Flow names what the task belongs to below its tenant (TenantOf), e.g. a user or a batch: at most 128 bytes of
	// UTF-8 without control characters. Flows of a tenant whose tasks wait for a bucket share the tenant's part of it by
	// the limit's Weights, in tokens. Empty means the flow of all tasks without a name.
	Flow string `json:"flow,omitempty"`
	// Priority is one of the limit's Priorities; empty means the lowest. It has no effect where the limit has none.
	Priority string `json:"priority,omitempty"`
	// Given is the limit itself, where the caller gives it with the charge, e.g. one that the program computes; its Name
	// is set to Limit. Its bucket is that of Limit and Key, as for a configured limit, and follows the limit of the last
	// call. It is for direct calls: a task can't carry a limit. A limit that is not valid, or has the name of a
	// configured one, is ErrInvalidCharge wherever the charge is used. Nil means that Limit names a configured limit, or
	// one that Config.Resolve knows.
	Given *Limit `json:"-"`

	answered `json:"-"`
}

// answered is what the bucket has answered for a charge. It is for Headway's own packages: a user has no part in it. A
// [Limiter] and the waitlists set it, and it does not travel with a task.
type answered struct {
	// Shard is the shard, from 1, of the bucket, where its limit has Shards; zero until it has answered.
	Shard int
	// Held is what a task that has waited for the bucket holds there: "reserved" for promised tokens, "waiting" for
	// none. Empty for a new task. If it is lost, new tasks wait for the promised tokens once too often; the limit is not
	// affected.
	Held string
	// Lease distinguishes the calls in flight of a bucket; zero for a charge that has not started, or needs none. The call
	// has to have ended at LeaseEnd, on this machine's clock, unless [Grant.Keep] renews the lease; Settle and Cancel end
	// it. A lease that is not renewed ends by itself within 26 seconds, e.g. that of a process that was killed.
	Lease    int64
	LeaseEnd time.Time
	// HoldEnd says until when the start holds, on the store's clock; zero where it does not. Without it a settlement
	// within 300 ms of the start may give too little back.
	HoldEnd time.Time
}

// Equal returns whether both charges are the same. Tests with go-cmp need it, because a Charge has unexported fields.
func (c Charge) Equal(other Charge) bool { return reflect.DeepEqual(c, other) }

// Bucket names the bucket of the charge. Once a shard of the limit has answered, it is the bucket of this shard.
func (c Charge) Bucket() BucketName { return BucketName{Limit: c.Limit, Key: c.Key, Shard: c.Shard} }

// whole is the bucket of the charge without its shard: that of all shards.
func (c Charge) whole() BucketName { return BucketName{Limit: c.Limit, Key: c.Key} }

// TenantOf is the tenant of a call with these charges in a limit: the bucket of its first charge, if that is one of
// another limit. Tenants share the limit, and each shares its part among its flows. Empty means the tenant of all calls
// without one. A limit that a caller gave with its charge (Charge.Given) names no tenant.
func TenantOf(charges []Charge, limit string) string {
	for _, c := range charges {
		switch {
		case c.Limit == limit:
			return ""
		case c.Given == nil:
			return c.whole().String()
		}
	}
	return ""
}

// flowOf says whose a call is in the bucket of its last charge: its tenant's, else that of the Flow of that charge.
// Empty where it names neither.
func flowOf(charges []Charge) string {
	if len(charges) == 0 {
		return ""
	}
	last := charges[len(charges)-1]
	return cmp.Or(TenantOf(charges, last.Limit), last.Flow)
}

// validateNames refuses a charge that no limit can serve, whatever it takes: for its bucket, its flow, or a priority
// that can't be the name of one. The error matches ErrInvalidCharge.
func (c Charge) validateNames() error {
	if err := c.Bucket().validate(); err != nil {
		return err
	}
	return c.validateTerms()
}

// validateTerms is validateNames without the bucket.
func (c Charge) validateTerms() error {
	problem := bucket.NameProblem("flow", c.Flow, maxFlow)
	if problem == "" && c.Priority != "" && !nameShape.MatchString(c.Priority) {
		problem = fmt.Sprintf("priority %.64q must be 1 to 64 letters, digits, '_', '-' or '.'", c.Priority)
	}
	if problem == "" {
		return nil
	}
	c.Flow, c.Priority = "", ""
	return &ChargeError{Charge: c, Err: ErrInvalidCharge, Problem: problem}
}

// ValidateCharges refuses charges that can't start together, whatever their limits are. ErrInvalidCharge: the name of a
// limit, a key, a flow or a priority is none, or an amount is no number from 0 to 1e15. So are two charges for the same
// limit and key. Limiter.Validate asks whether a limit can serve its charge.
func ValidateCharges(charges []Charge) error {
	for i, c := range charges {
		if err := c.validateNames(); err != nil {
			return err
		}
		for name, n := range c.Tokens {
			if err := c.validateNumber(name, n); err != nil {
				return err
			}
		}
		if slices.ContainsFunc(charges[:i], func(b Charge) bool { return b.whole() == c.whole() }) {
			return c.fault(ErrInvalidCharge, "", "two charges are for %v: add up what is taken from it", c.Bucket())
		}
	}
	return nil
}

func (c Charge) validateNumber(meter string, n float64) error {
	if math.IsNaN(n) || n < 0 || n > bucket.LargestAmount {
		return c.fault(ErrInvalidCharge, meter, "%v tokens must be a number from 0 to %g", n, bucket.LargestAmount)
	}
	return nil
}

// validateAmount refuses what can't be an amount of a meter, in a charge, a settlement or a provider's balance.
func (c Charge) validateAmount(l Limit, meter string, n float64) error {
	if l.meter(meter) < 0 {
		return c.fault(ErrUnknownMeter, meter, "limit %q has no such meter; %s", l.Name, nearest.There(meter, l.meterNames()))
	}
	return c.validateNumber(meter, n)
}

// validate reports why the charge, whose names are good, can never be served by the limit. ErrUnknownMeter: the limit
// does not have the meter. ErrInvalidCharge: an amount is negative, not a number or above 1e15. ErrChargeTooLarge: an
// amount is above what the meter, or one of its shards, can ever serve.
func (c Charge) validate(l Limit) error {
	for name, n := range c.Tokens {
		if err := c.validateAmount(l, name, n); err != nil {
			return err
		}
	}
	for _, m := range l.Meters {
		n, each := c.Tokens[m.Name], m.Cap()/float64(l.shards())
		switch {
		case n > m.rules().Largest():
			return c.fault(ErrChargeTooLarge, m.Name,
				"%v tokens are more than can ever be served (capacity %v + max_reserved %s)", n, m.Cap(), m.reservedText())
		case n > each && l.shards() > 1: // it could only be owed, and several shards that owe at once exceed the limit
			return c.fault(ErrChargeTooLarge, m.Name,
				"%v tokens are more than a shard can ever serve: capacity %v of %d shards is %v each",
				n, m.Cap(), l.Shards, each)
		}
	}
	return nil
}

// validateWhole refuses a charge that leaves out a meter of its limit. The error matches ErrMeterLeftOut.
func (c Charge) validateWhole(l Limit) error {
	var missing []string
	for _, m := range l.Meters {
		if _, named := c.Tokens[m.Name]; !named && !m.inFlight() {
			missing = append(missing, m.Name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return c.fault(ErrMeterLeftOut, missing[0], "the charge has no amount for %s: say how much it takes, 0 for none",
		strings.Join(missing, ", "))
}

// fault is a ChargeError about a meter.
func (c Charge) fault(err error, meter, format string, args ...any) error {
	return &ChargeError{Charge: c, Meter: meter, Err: err, Problem: fmt.Sprintf(format, args...)}
}

// validateAtOnce says why a charge must not owe: an amount is above the capacity.
func (c Charge) validateAtOnce(l bucket.Limit) error {
	for _, m := range l.Meters {
		if n, most := c.Tokens[m.Name], m.Filling.Capacity; n > most {
			return c.fault(ErrChargeTooLarge, m.Name,
				"%v tokens are more than can ever start at once (capacity %v)", n, most)
		}
	}
	return nil
}
