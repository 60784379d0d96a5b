package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/reservations"
)

// The meters that a Pattern counts by itself, as calls of an OpenAI-style API are counted.
const (
	meterTokens       = "tokens"
	meterTokensPerDay = "tokens_per_day" //nolint:gosec // the name of a meter
)

// Range is a number between two bounds, each as likely. Equal bounds are that number.
type Range struct{ Least, Most float64 }

// value draws a number.
func (r Range) value(random *rand.Rand) float64 {
	if r.Least == r.Most {
		return r.Least
	}
	return r.Least + random.Float64()*(r.Most-r.Least)
}

// FlowShare is a flow, and how many calls it has beside the others.
type FlowShare struct {
	Name  string
	Share float64
}

// Pattern is what generated calls are like, and what a line of a trace leaves out.
type Pattern struct {
	// Buckets are the limits, each with a key, the narrowest first. At least one.
	Buckets []reservations.Charge
	// Tokens is the estimate of a call in whole tokens, for the meters tokens and tokens_per_day. Requests and
	// requests_per_day count one. Zero bounds mean that Tokens is not given.
	Tokens Range
	// Charge is what a call takes of other meters. It comes before what the others say.
	Charge reservations.Tokens
	// Used is what a call turns out to use of its tokens; nil for all. With Share it is a part of the estimate.
	Used  *Range
	Share bool
	// Latency is how long a call takes, in seconds.
	Latency Range
	// Flows are the flows of the calls, by chance. None: the calls name no flow.
	Flows []FlowShare
	// Priority and Urgent are the ones of the charges.
	Priority string
	Urgent   bool
}

// maker makes calls of a pattern. It shares charges between equal calls.
type maker struct {
	pattern                             Pattern
	limits                              []reservations.Limit // of the buckets
	shares                              float64
	flowing, pricing, using, responding *rand.Rand
	charges                             map[priced][]reservations.Charge
	used                                map[float64]reservations.Tokens
}

// priced is what charges depend on.
type priced struct {
	tokens float64
	flow   string
}

// Streams of chance, so that another number of tokens does not change when calls arrive.
const (
	streamArrivals = iota + 1
	streamFlows
	streamTokens
	streamUsed
	streamLatency
)

func stream(seed uint64, n uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, n)) //nolint:gosec // a simulation
}

// newMaker checks a pattern. The error names the field and the value.
func newMaker(p Pattern, limits []reservations.Limit, seed uint64) (*maker, error) {
	m := &maker{
		pattern: p, charges: map[priced][]reservations.Charge{}, used: map[float64]reservations.Tokens{},
		flowing: stream(seed, streamFlows), pricing: stream(seed, streamTokens), using: stream(seed, streamUsed),
		responding: stream(seed, streamLatency),
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	for _, b := range p.Buckets {
		l, err := limitNamed(limits, b.Limit)
		if err != nil {
			return nil, err
		}
		m.limits = append(m.limits, l)
	}
	for _, f := range p.Flows {
		m.shares += f.Share
	}
	return m, nil
}

// limitNamed is the limit of a name.
func limitNamed(limits []reservations.Limit, name string) (reservations.Limit, error) {
	i := slices.IndexFunc(limits, func(l reservations.Limit) bool { return l.Name == name })
	if i < 0 {
		var names []string
		for _, l := range limits {
			names = append(names, l.Name)
		}
		return reservations.Limit{}, fmt.Errorf("limit: %.80q: %w; %s", name, reservations.ErrUnknownLimit,
			nearest.There(name, names))
	}
	return limits[i], nil
}

func (p Pattern) validate() error {
	amount := func(field string, r Range, most float64) error {
		if !(r.Least >= 0 && r.Most >= r.Least && r.Most <= most) {
			return fmt.Errorf("%s: %v..%v must be two numbers from 0 to %g, the smaller one first", field, r.Least, r.Most, most)
		}
		return nil
	}
	if err := amount("tokens", p.Tokens, bucket.LargestAmount); err != nil {
		return err
	}
	if err := amount("latency", p.Latency, UntilDefault.Seconds()); err != nil {
		return err
	}
	if p.Used != nil {
		if err := amount("used", *p.Used, bucket.LargestAmount); err != nil {
			return err
		}
	}
	for _, f := range p.Flows {
		if !(f.Share > 0 && f.Share <= bucket.LargestAmount) {
			return fmt.Errorf("flow: %q has the share %v: must be above zero", f.Name, f.Share)
		}
	}
	return nil
}

// flow draws a flow.
func (m *maker) flow() string {
	if len(m.pattern.Flows) == 0 {
		return ""
	}
	at := m.flowing.Float64() * m.shares
	for _, f := range m.pattern.Flows {
		if at -= f.Share; at < 0 {
			return f.Name
		}
	}
	return m.pattern.Flows[len(m.pattern.Flows)-1].Name
}

// draw makes the next call.
func (m *maker) draw(at time.Duration) (Call, error) {
	c := Call{At: at, Latency: seconds(m.pattern.Latency.value(m.responding))}
	key := priced{tokens: math.Round(m.pattern.Tokens.value(m.pricing)), flow: m.flow()}
	var err error
	if c.Charges = m.charges[key]; c.Charges == nil {
		if c.Charges, err = m.price(key, m.limits, m.pattern); err != nil {
			return Call{}, err
		}
		m.charges[key] = c.Charges
	}
	c.Used = m.uses(key.tokens)
	return c, nil
}

// price is what a call takes of its limits.
func (*maker) price(of priced, limits []reservations.Limit, p Pattern) ([]reservations.Charge, error) {
	counts := map[string]float64{
		"requests": 1, "requests_per_day": 1, meterTokens: of.tokens, meterTokensPerDay: of.tokens,
		reservations.MeterInFlight: 1,
	}
	unused := map[string]bool{}
	for meter, n := range p.Charge {
		counts[meter], unused[meter] = n, true
	}
	charges := make([]reservations.Charge, 0, len(limits))
	for i, l := range limits {
		c := reservations.Charge{
			Limit: l.Name, Key: p.Buckets[i].Key, Tokens: reservations.Tokens{}, Flow: of.flow, Priority: p.Priority,
			Urgent: p.Urgent,
		}
		for _, meter := range l.Meters {
			n, known := counts[meter.Name]
			_, named := p.Charge[meter.Name]
			isTokens := meter.Name == meterTokens || meter.Name == meterTokensPerDay
			switch {
			case !known:
				return nil, fmt.Errorf("charge: meter %q of limit %q: say how much of it a call takes, e.g. %s=1", meter.Name,
					l.Name, meter.Name)
			case isTokens && !named && p.Tokens == (Range{}):
				return nil, fmt.Errorf("tokens: limit %q has the meter %q: say how many a call takes, e.g. 1500", l.Name,
					meter.Name)
			}
			c.Tokens[meter.Name] = n
			delete(unused, meter.Name)
		}
		charges = append(charges, c)
	}
	for meter := range unused {
		return nil, fmt.Errorf("charge: %q is no meter of %s", meter, limitNames(limits))
	}
	return charges, nil
}

func limitNames(limits []reservations.Limit) string {
	var names []string
	for _, l := range limits {
		names = append(names, l.Name)
	}
	return "limit " + strings.Join(names, ", ")
}

// uses draws what a call with an estimate uses.
func (m *maker) uses(estimate float64) reservations.Tokens {
	if m.pattern.Used == nil {
		return nil
	}
	n := m.pattern.Used.value(m.using)
	if m.pattern.Share {
		n *= estimate
	}
	n = math.Round(n)
	used := m.used[n]
	if used == nil {
		used = reservations.Tokens{meterTokens: n, meterTokensPerDay: n}
		m.used[n] = used
	}
	return used
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
