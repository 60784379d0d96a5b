package gateway

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/text/period"
)

// deadline is how long a caller waits.
type deadline struct {
	startBy time.Time     // zero if the caller names none
	patient time.Duration // how long the client goes without a byte; zero if it does not say
}

// deadlineOf reads Headway-Start-By, else the time-outs in seconds that the clients of OpenAI and Anthropic send along.
func deadlineOf(h http.Header, now time.Time) (d deadline, problem *fault) {
	whole := seconds(h.Get("X-Stainless-Timeout"))
	read := seconds(h.Get("X-Stainless-Read-Timeout"))
	for _, said := range []time.Duration{whole, read} {
		if said > 0 {
			d.patient = said
		}
	}
	if d.patient > 0 {
		d.startBy = now.Add(d.patient)
	}
	text := strings.TrimSpace(h.Get("Headway-Start-By"))
	if text == "" {
		return d, nil
	}
	if by, err := time.Parse(time.RFC3339, text); err == nil {
		d.startBy = by
		return d, nil
	}
	within, err := period.Parse(text)
	if err != nil || within < 0 {
		return d, &fault{status: http.StatusBadRequest, message: fmt.Sprintf(
			"The header Headway-Start-By is %.40q: it must look like 30s or 2026-12-24T18:00:00Z.", text)}
	}
	d.startBy = now.Add(within)
	return d, nil
}

// seconds reads a number of seconds; zero if it is none.
func seconds(text string) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(n > 0) {
		return 0
	}
	return time.Duration(math.Min(n*float64(time.Second), math.MaxInt64/2))
}

// latest is the last moment at which the call may start.
func (d deadline) latest(now time.Time, most time.Duration) time.Time {
	latest := now.Add(most)
	if !d.startBy.IsZero() && d.startBy.Before(latest) {
		return d.startBy
	}
	return latest
}

// every is the pause between signs of life: three within the patience of the client, a second at least.
func (d deadline) every(usual time.Duration) time.Duration {
	if d.patient == 0 {
		return usual
	}
	return min(usual, max(d.patient/3, time.Second))
}

// honoured is how long a client waits at most before it tries again because it was asked to. The clients of
// OpenAI for Node.js and Python come back early if they are asked for more than a minute. The client for Go gives up
// above two minutes. Others wait 8 s.
func honoured(h http.Header) time.Duration {
	switch strings.ToLower(h.Get("X-Stainless-Lang")) {
	case "", "js", "python":
		return time.Minute
	case "go":
		return 2 * time.Minute
	}
	return 8 * time.Second
}
