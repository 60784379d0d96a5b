package provider

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/text/loopback"
)

// Defaults of [Config].
const (
	AddrDefault       = "127.0.0.1:0"
	SlackDefault      = 50 * time.Millisecond
	MinLatencyDefault = 50 * time.Millisecond
	MaxLatencyDefault = 400 * time.Millisecond
	UsedMinDefault    = 0.2
	UsedMaxDefault    = 0.5
)

// Quota is the limit of one meter: a token bucket that starts full.
type Quota struct {
	// Rate is the refill per second. Zero means that the meter is not limited.
	Rate float64

	// Capacity is the largest amount of a single request. A request that needs more is always refused.
	Capacity float64
}

// WindowQuota is a fixed window: a number of requests in each Period, counted from the Unix epoch. Each window starts
// full. A request that arrives within the slack after that may count for the window before, because it may have been
// sent in that window.
type WindowQuota struct {
	// Requests is the number of requests that one window allows. Zero means that there is no such limit.
	Requests float64

	// Period is the length of a window.
	Period time.Duration
}

// Block is a refusal that names a time, like the answer of a provider under load.
type Block struct {
	// Number is the number of the refused request, from 1. Zero means none.
	Number int

	// For is the time that the refusal names, in whole seconds.
	For time.Duration
}

// Trouble makes calls fail at random. Each field is a share of all requests with room, from 0 to 1; together they are
// at most 1.
type Trouble struct {
	// Refuse is the share that is refused with a 429 that names For, in whole seconds. Such a refusal is no
	// violation.
	Refuse float64
	For    time.Duration

	// Fail is the share that is accepted and answered 500.
	Fail float64

	// Drop is the share that is accepted, and then gets a closed connection instead of an answer.
	Drop float64
}

// Hidden is a hidden change of the limit of requests: it halves for a time.
type Hidden struct {
	// After is how long after the first accepted request the rate halves. Zero means that nothing is hidden.
	After time.Duration

	// For is how long the limit is halved.
	For time.Duration
}

// Config is the limits and the behaviour of the provider. Its zero value limits nothing.
type Config struct {
	// Addr is the loopback address to listen on. Defaults to [AddrDefault], which lets the system choose the port.
	Addr string

	// Requests and Tokens are the limits of the two meters.
	Requests, Tokens Quota

	// Window is another limit of requests, e.g. a daily one.
	Window WindowQuota

	// InFlight is how many calls may run at once. A call runs on for 3 seconds after its client disconnects. Zero
	// means any number.
	InFlight int

	// Tenants are limits of requests for single tenants, named by the "user" of a chat request. Other tenants have no
	// limit of their own.
	Tenants map[string]Quota

	// Block refuses one request with a 429 that names a time. Requests that arrive in that time are accepted if there
	// is room. After its first second they count as Report.Blocked.
	Block Block

	// Trouble makes calls fail. Report.Troubles counts its refusals and the requests within their time.
	Trouble Trouble

	// Hidden halves the rate of Requests for a time. Answers then have no rate limit headers. Refusals are no
	// violations, and count as Report.Hidden.
	Hidden Hidden

	// KeepEstimate keeps the count of tokens on arrival. By default the provider corrects it when the call ends.
	KeepEstimate bool

	// CountUsed counts the prompt on arrival and the actual answer when the call ends. By default the provider counts
	// all of max_tokens on arrival, and corrects that when the call ends.
	CountUsed bool

	// HeadersOnArrival makes the rate limit headers show the remaining tokens at the arrival of the request. By
	// default they show the remaining tokens when the answer leaves, after its own correction.
	HeadersOnArrival bool

	// Slack makes each bucket larger than its limit, by Rate*Slack. Defaults to [SlackDefault]; negative means none.
	Slack time.Duration

	// MinLatency and MaxLatency bound the time of an answer. They default to [MinLatencyDefault] and
	// [MaxLatencyDefault] (or MinLatency, if that is larger). A negative MinLatency means no latency at all.
	MinLatency, MaxLatency time.Duration

	// UsedMin and UsedMax bound the share of max_tokens that an answer uses as completion tokens. They default to
	// [UsedMinDefault] and [UsedMaxDefault] (or UsedMin, if that is larger). They are at most 1.
	UsedMin, UsedMax float64
}

func (c Config) withDefaults() Config {
	c.Addr = cmp.Or(c.Addr, AddrDefault)
	c.Slack = max(cmp.Or(c.Slack, SlackDefault), 0)
	if c.MinLatency < 0 {
		c.MinLatency, c.MaxLatency = 0, 0
	} else {
		c.MaxLatency = cmp.Or(c.MaxLatency, max(MaxLatencyDefault, c.MinLatency))
		c.MinLatency = cmp.Or(c.MinLatency, min(MinLatencyDefault, c.MaxLatency))
	}
	c.UsedMax = cmp.Or(c.UsedMax, max(UsedMaxDefault, c.UsedMin))
	c.UsedMin = cmp.Or(c.UsedMin, min(UsedMinDefault, c.UsedMax))
	return c
}

// validate joins all faults of a Config, after its defaults are set.
func (c Config) validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("provider: "+format, args...))
	}
	quota := func(field string, q Quota) {
		if q.Rate < 0 {
			fault("%s.Rate must not be negative, but is %v", field, q.Rate)
		}
		if q.Rate > 0 && q.Capacity <= 0 {
			fault("%s.Capacity must be above zero where Rate is, but is %v", field, q.Capacity)
		}
	}
	quota("Requests", c.Requests)
	quota("Tokens", c.Tokens)
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		quota("Tenants."+name, c.Tenants[name])
	}
	if w := c.Window; w.Requests < 0 || w.Requests > 0 && w.Period < time.Millisecond {
		fault("Window must allow some requests in a Period of a millisecond or more, but is %v in %v", w.Requests,
			w.Period)
	}
	if t := c.Trouble; t.Refuse < 0 || t.Fail < 0 || t.Drop < 0 || t.Refuse+t.Fail+t.Drop > 1 || t.Refuse > 0 &&
		t.For < time.Second {
		fault("Trouble must have shares from 0 to 1, together at most 1, and refuse for a second or more, but is %+v",
			t)
	}
	if c.Block.Number < 0 || c.Block.Number > 0 && c.Block.For < time.Second {
		fault("Block must refuse a request for a second or more, but is number %d for %v", c.Block.Number, c.Block.For)
	}
	if h := c.Hidden; h.After < 0 || h.For < 0 || h.After > 0 && c.Requests.Rate == 0 {
		fault("Hidden must have no negative times, and a limit of Requests, but is %+v", h)
	}
	if c.MinLatency > c.MaxLatency {
		fault("MinLatency %v is above MaxLatency %v", c.MinLatency, c.MaxLatency)
	}
	if c.UsedMin < 0 || c.UsedMin > c.UsedMax || c.UsedMax > 1 {
		fault("UsedMin %v and UsedMax %v must be in order and between 0 and 1", c.UsedMin, c.UsedMax)
	}
	if c.CountUsed && c.KeepEstimate {
		fault("CountUsed and KeepEstimate exclude each other")
	}
	if c.InFlight < 0 {
		fault("InFlight must not be negative, but is %d", c.InFlight)
	}
	if host, _, err := net.SplitHostPort(c.Addr); err != nil {
		fault("Addr %q: %w", c.Addr, err)
	} else if !loopback.Host(host) {
		fault("Addr %q is not on loopback", c.Addr)
	}
	return errors.Join(faults...)
}
