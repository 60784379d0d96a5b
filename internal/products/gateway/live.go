package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/reservations"
)

const (
	// refusalsMost is how often in a row a provider may refuse a call until its caller gets the refusal.
	refusalsMost = 20
	// againMin is the first pause after a refusal that names no time. It doubles up to againMost.
	againMin  = time.Second
	againMost = 30 * time.Second
)

// serveLive answers one call.
func (g *Gateway) serveLive(w http.ResponseWriter, r *http.Request, to route, key keys.Key) {
	now := time.Now()
	r, span := g.trace(r, to)
	defer span.End()
	c, problem := g.read(w, r, to)
	defer c.release()
	var o order
	if problem == nil {
		o, problem = g.orderOf(c, key)
	}
	var said deadline
	if problem == nil {
		said, problem = deadlineOf(r.Header, now)
	}
	if problem != nil {
		traceFault(r.Context(), *problem)
		writeFault(w, to.family, *problem)
		return
	}
	g.pass(w, r, c, o, said)
}

// pass waits until the call starts, and passes on its answer.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, c *call, o order, said deadline) {
	latest := said.latest(time.Now(), g.config.MaxHold)
	ctx, give := context.WithCancelCause(r.Context())
	defer give(nil)
	stopped := context.AfterFunc(g.serving, func() { give(errStopped) }) //nolint:contextcheck // of the gateway
	defer stopped()
	watching := &watch{latest: latest, give: give, looks: g.looks, gone: func() bool {
		return r.Context().Err() != nil || g.serving.Err() != nil
	}}
	watching.name, watching.retry = nameOf(r.Header, c)
	defer watching.end()
	ctx = context.WithValue(ctx, watchKey{}, watching)
	h := newHold(w, c, watching, said.every(g.config.Silent), give)
	defer h.end()
	for refusals := 0; ; refusals++ {
		began := time.Now()
		grant, err := g.wait(ctx, latest, o.charges)
		if err != nil {
			if r.Context().Err() == nil {
				g.refused(c, err)
				f := g.waitFault(err, watching, r.Header)
				traceFault(ctx, f)
				h.fail(f)
			}
			return
		}
		h.granted()
		x := &exchange{
			gateway: g, hold: h, call: c, order: o, grant: grant, retries: refusals < refusalsMost, attempt: refusals + 1,
		}
		waited, _, _ := watching.waited()
		g.traceStart(ctx, o, began, waited)
		x.started(time.Now(), waited.Limit != "")
		if again := x.run(w, r); !again {
			return
		}
		h.again()
		if x.block == 0 && pause.For(ctx, min(againMin<<min(refusals, 10), againMost)) != nil {
			return
		}
	}
}

// wait waits until the charges have started, at most until latest.
func (g *Gateway) wait(
	ctx context.Context, latest time.Time, charges []reservations.Charge,
) (*reservations.Grant, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, latest, errLate)
	defer cancel()
	return g.config.Limiter.Wait(ctx, charges...)
}

// waitFault is the answer to a call that did not start.
func (g *Gateway) waitFault(err error, w *watch, caller http.Header) fault {
	charge, answer, at := w.waited()
	switch {
	case reservations.IsPermanent(err):
		return fault{
			status: http.StatusBadRequest, code: "request_too_large", noRetry: true,
			message: fmt.Sprintf("No waiting can make room for this call: %v", err),
		}
	case errors.Is(err, reservations.ErrUnavailable):
		return fault{
			status: http.StatusServiceUnavailable, code: "limits_unavailable", retry: againMost,
			message: "The store of the limits does not answer, so nothing starts.",
		}
	case !errors.Is(err, errLate):
		return fault{
			status: http.StatusServiceUnavailable, code: "gateway_stops", retry: againMin,
			message: "This gateway stops: try again.",
		}
	}
	wait := max(time.Until(at.start), time.Second)
	f := fault{
		status: http.StatusTooManyRequests, code: "rate_limit_exceeded", retry: wait, noRetry: wait > honoured(caller),
		message: fmt.Sprintf("The call would start in about %v, which is later than its caller or this gateway waits.",
			wait.Round(time.Second)),
		header: http.Header{},
	}
	if charge.Limit == bucket.BudgetLimit {
		f.code = codeBudget
		f.message = fmt.Sprintf("The budget of this key is used up; enough of it is back in about %v.",
			wait.Round(time.Second))
	} else if answer.State != "" {
		showLimits(f.header, familyOpenAI, []reservations.Outcome{answer})
	}
	return f
}

// nameOf names a call, so that its retry finds its place: by its Idempotency-Key, else by what it asks for, if its
// client counts retries. Retry is the name if the call may be a retry. The caller's key is a part of it.
func nameOf(h http.Header, c *call) (name, retry string) {
	count, idempotent := h.Get("X-Stainless-Retry-Count"), h.Get("Idempotency-Key")
	if count == "" && idempotent == "" {
		return "", ""
	}
	sum := sha256.New()
	for _, part := range []string{secretOf(h), c.endpoint, c.deployment, idempotent} {
		fmt.Fprintf(sum, "%d %s ", len(part), part)
	}
	if idempotent == "" {
		_, _ = sum.Write(c.body) // it never fails
	}
	name = hex.EncodeToString(sum.Sum(nil)[:16])
	if idempotent != "" || count != "0" {
		retry = name
	}
	return name, retry
}
