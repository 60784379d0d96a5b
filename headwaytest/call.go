package headwaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/reservations"
)

// Caller calls a provider for one worker: when that worker is killed, its calls end.
type Caller struct {
	api *API
	by  *process // nil for a call from outside of the fleet
}

// Caller returns the provider for the worker that the function of [Fleet.Workers] is setting up. Elsewhere it returns
// it
// for a program outside of the fleet, whose calls nothing ends.
func (a *API) Caller() *Caller { return &Caller{api: a, by: a.fleet.setting} }

// Client returns the provider as an HTTP client, for the same worker as [API.Caller]. Requests may have any URL: they
// all
// go to this provider. A refusal is a 429, with Retry-After where it names a time.
func (a *API) Client() *http.Client { return &http.Client{Transport: a.Caller()} }

// RefusedError is a 429.
type RefusedError struct {
	// RetryAfter is the time that the provider names. Zero means none.
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string { return "429 too many requests" }

var (
	// ErrFailed is a 503.
	ErrFailed = errors.New("503 service unavailable")
	// ErrDropped is a call whose answer is lost.
	ErrDropped = errors.New("connection lost before the answer")
	// errKilled is the end of a call of a killed worker.
	errKilled = errors.New("headwaytest: the worker was killed")
)

// Do makes a call and waits for its end. The error is one that a handler may return as it is: a refusal matches
// *RefusedError and *reservations.RetryAfterError, other failures are ErrFailed or ErrDropped.
func (c *Caller) Do(ctx context.Context, call Call) error {
	err := c.call(ctx, call)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return reservations.RetryAfter(refused.RetryAfter, err)
	}
	return err
}

// fate is what becomes of a call.
type fate struct {
	err     error
	lasts   time.Duration
	charged *account // nil if nothing was charged
}

func (c *Caller) call(ctx context.Context, call Call) error {
	if c.by != nil && c.by.dead() {
		return c.end(ctx)
	}
	if err := c.api.valid(call); err != nil {
		return err
	}
	f := c.arrive(ctx, call)
	c.trace(ctx, call, f)
	if f.charged == nil {
		return f.err
	}
	var died <-chan struct{}
	if c.by != nil {
		died = c.by.died
	}
	timer := time.NewTimer(f.lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
		c.api.finish(f.charged, call)
		return f.err
	case <-died:
	case <-ctx.Done():
	}
	time.AfterFunc(min(f.lasts, goneAfter), func() { c.api.finish(f.charged, call) })
	if c.by != nil && c.by.dead() {
		return c.end(ctx)
	}
	return ctx.Err()
}

// trace adds the call to the trace of the fleet.
func (c *Caller) trace(ctx context.Context, call Call, f fate) {
	by := "outside"
	if c.by != nil {
		by = c.by.name
	}
	task, _ := asynq.GetTaskID(ctx)
	c.api.fleet.trace.add("call", by, "%s for %q, %+v: %v, lasts %v", c.api.name, task, call, f.err, f.lasts)
}

// end is the end of a call of a killed worker: its handler goes no further until the worker's own end.
func (c *Caller) end(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-c.by.fleet.ctx.Done():
	}
	return errKilled
}

// valid refuses a call that no provider can count. The test fails.
func (a *API) valid(call Call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, of := range []struct {
		field  string
		tokens reservations.Tokens
	}{{"Tokens", call.Tokens}, {"Used", call.Used}} {
		for _, meter := range slices.Sorted(maps.Keys(of.tokens)) {
			n, problem := of.tokens[meter], ""
			if !slices.ContainsFunc(a.Meters, func(m reservations.Meter) bool { return m.Name == meter }) {
				problem = "the provider has no such meter, only " + metersText(a.Meters)
			} else if !(n >= 0) || math.IsInf(n, 0) {
				problem = "must be zero or more"
			}
			if problem == "" {
				continue
			}
			err := fmt.Errorf("provider %q: the %s of a call have %v of %q: %s", a.name, of.field, n, meter, problem)
			a.failOnce(err.Error())
			return err
		}
	}
	return nil
}

// failOnce fails the test, once for each text. It requires that a.mu is held.
func (a *API) failOnce(text string) {
	if !a.wrong[text] {
		a.wrong[text] = true
		a.fleet.errorf("%s", text)
	}
}

// arrive judges a call, and charges all meters or none.
func (c *Caller) arrive(ctx context.Context, call Call) fate {
	a := c.api
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	acc := a.account(call.Key, now)
	if now.Before(acc.blockedUntil) && now.Sub(acc.blockedAt) > ignoredAfter {
		a.ignored++
	}
	var wait time.Duration
	for i, m := range acc.meters {
		need := a.need(call, i)
		if m.HasRoom(need) {
			continue
		}
		c.violates(ctx, call, i, now)
		wait = max(wait, m.Wait(need), time.Millisecond)
	}
	if wait > 0 {
		if a.NoRetryAfter {
			wait = 0
		}
		return fate{err: &RefusedError{RetryAfter: wait}}
	}
	f := fate{}
	switch part := a.random.Float64(); {
	case part < a.Refuse:
		a.refused++
		if until := now.Add(a.RetryAfter); until.After(acc.blockedUntil) {
			if now.After(acc.blockedUntil) {
				acc.blockedAt = now
			}
			acc.blockedUntil = until
		}
		return fate{err: &RefusedError{RetryAfter: a.RetryAfter}}
	case part < a.Refuse+a.Fail:
		f.err = ErrFailed
		a.failed++
	case part < a.Refuse+a.Fail+a.Drop:
		f.err = ErrDropped
		a.failed++
	}
	for i, m := range acc.meters {
		m.Add(-a.need(call, i))
	}
	a.calls = append(a.calls, now)
	f.charged = acc
	if a.Latency != nil {
		if f.lasts = a.Latency(a.random); f.lasts < 0 {
			a.failOnce(fmt.Sprintf("provider %q: Latency drew %v: must be zero or more", a.name, f.lasts))
		}
	}
	return f
}

// violates notes that a meter has no room for a call. It requires that a.mu is held.
func (c *Caller) violates(ctx context.Context, call Call, meter int, now time.Time) {
	a := c.api
	if a.count++; len(a.violations) == violationsKept {
		return
	}
	m := a.Meters[meter]
	_, had, _ := a.accounts[call.Key].meters[meter].Limits()
	v := Violation{
		At: now.Sub(a.fleet.began), Key: call.Key, Meter: m.Name, Need: a.need(call, meter), Had: had,
		Limit: a.limitText(m.Name), Enforced: register.MeterLine(m),
	}
	v.Task, _ = asynq.GetTaskID(ctx)
	if c.by != nil {
		v.Worker = c.by.name
	}
	a.violations = append(a.violations, v)
}

// need returns what a call needs of a meter.
func (a *API) need(call Call, meter int) float64 {
	if n, named := call.Tokens[a.Meters[meter].Name]; named {
		return n
	}
	return 1
}

// finish ends a call, and corrects the count by what it used.
func (a *API) finish(acc *account, call Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	acc.fill(now)
	for i, m := range a.Meters {
		switch used, named := call.Used[m.Name]; {
		case m.Kind == reservations.KindInFlight:
			acc.meters[i].Add(a.need(call, i))
		case named:
			acc.meters[i].Add(a.need(call, i) - used)
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (c *Caller) RoundTrip(r *http.Request) (*http.Response, error) {
	var call Call
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	if c.api.Cost != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		call = c.api.Cost(r)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	err = c.call(r.Context(), call)
	refused, isRefusal := errors.AsType[*RefusedError](err)
	switch {
	case err == nil && c.api.Handler != nil:
		c.api.Handler.ServeHTTP(w, r)
	case err == nil:
		_, _ = w.WriteString("{}") // a recorder never fails
	case isRefusal:
		if refused.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
		}
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.WriteString(
			`{"error":{"message":"Rate limit reached","type":"rate_limit_error","code":"rate_limit_exceeded"}}`,
		)
	case errors.Is(err, ErrFailed):
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.WriteString(`{"error":{"message":"The server is overloaded","type":"server_error"}}`)
	default:
		return nil, fmt.Errorf("%s: %w", c.api.name, err)
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }() // read to its end
	return io.ReadAll(r.Body)
}
