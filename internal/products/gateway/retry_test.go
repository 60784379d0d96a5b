package gateway_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/test/network"
)

// A retry takes the place that its call had: after its connection was lost, after its gateway stopped, and after it was
// killed. A call that was not lost keeps its place, and a stranger gets none.
func TestRetryKeepsItsPlace(t *testing.T) {
	t.Parallel()
	count := func(n string) []string { return []string{"X-Stainless-Retry-Count", n} }
	for name, c := range map[string]struct {
		first, second []string // headers
		end           func(g *gate, cancel func())
		pause         time.Duration
		keeps         bool
	}{
		"lost":           {first: count("0"), second: count("1"), keeps: true},
		"lost, by a key": {first: []string{"Idempotency-Key", "k"}, second: []string{"Idempotency-Key", "k"}, keeps: true},
		"another key":    {first: []string{"Idempotency-Key", "k"}, second: []string{"Idempotency-Key", "l"}},
		"no retry":       {first: count("0"), second: count("0")},
		"not counted":    {second: count("1")},
		"too late":       {first: count("0"), second: count("1"), pause: 2 * time.Minute},
		"still there":    {first: count("0"), second: count("1"), end: func(*gate, func()) {}},
		"gateway stopped": {
			first: count("0"), second: count("1"), end: func(g *gate, _ func()) { g.gateway.Stop() }, keeps: true,
		},
		"gateway killed": {first: count("0"), second: count("1"), end: func(g *gate, _ func()) {
			g.redis.Set(network.Refuse)
			g.wire.Set(network.Refuse)
		}, pause: 10 * time.Second, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patient := func(c *gateway.Config) { c.MaxHold = time.Hour }
			play(t, good, patient, func(w *world, g *gate) {
				t := w.t
				other := w.newGate(patient)
				other.chat(hello)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				lost := g.send(ctx, "/v1/chat/completions", hello, c.first...)
				wait(time.Second)
				behind := make([]<-chan reply, 9)
				for i := range behind {
					behind[i] = other.send(t.Context(), "/v1/chat/completions", hello)
					wait(100 * time.Millisecond)
				}
				wait(12 * time.Second)
				end := c.end
				if end == nil {
					end = func(_ *gate, cancel func()) { cancel() }
				}
				end(g, cancel)
				wait(c.pause)
				a := other.chat(hello, c.second...)
				if a.err != nil || a.StatusCode != http.StatusOK {
					t.Fatalf("%v, %v: %q", a.err, a.Response, a.text)
				}
				if keeps := a.took < 30*time.Second; keeps != c.keeps {
					t.Errorf("the retry had its answer after %v", a.took)
				}
				for _, one := range behind {
					<-one
				}
				cancel()
				g.redis.Set(network.Up)
				<-lost
				wait(time.Minute)
				w.gates[0], w.gates[1] = w.gates[1], w.gates[0]
				w.empty()
			})
		})
	}
}
