package reservations_test

import (
	"container/heap"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// hidden is a provider whose limit is not known, in virtual time, with a fleet that always has tasks.
type hidden struct {
	limit   reservations.Limit
	bucket  bucket.Bucket
	rates   []float64 // a second, one for each phase
	phase   float64   // seconds
	burst   float64   // seconds' worth
	headers bool

	filled, left float64
	blocked      float64 // until when
	events       worldEvents
	used         []float64 // calls in each phase
	refused      []int     // calls in each phase
	halved       int       // blocks within 15 s after the third phase begins
	halvedCalls  int       // refused calls then
}

type worldEvent struct {
	at float64
	do func(at float64)
}

type worldEvents []worldEvent //nolint:recvcheck // as container/heap has it

func (e worldEvents) Len() int           { return len(e) }
func (e worldEvents) Less(i, j int) bool { return e[i].at < e[j].at }
func (e worldEvents) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *worldEvents) Push(x any)        { *e = append(*e, x.(worldEvent)) }
func (e *worldEvents) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func (h *hidden) at(at float64, do func(float64)) { heap.Push(&h.events, worldEvent{at, do}) }

func (h *hidden) index(at float64) int { return min(len(h.rates)-1, int(at/h.phase)) }

func (h *hidden) fill(at float64) {
	rate := h.rates[h.index(at)]
	h.left = min(rate*(h.burst+.05), h.left+rate*(at-h.filled))
	h.filled = at
}

func (h *hidden) ask(at float64, r bucket.Request) bucket.Answer {
	var o bucket.Answer
	h.bucket, o = bucket.Step(h.bucket, bucket.Rules(h.limit), clock(at), r)
	return o
}

const (
	travels = .02
	answers = .3
)

func (h *hidden) start(at float64) {
	o := h.ask(at, bucket.Request{Op: bucket.OpStart, Promoted: true, Tokens: []float64{1}})
	if !o.Started() {
		h.at(at+max(1e-3, o.Wait().Seconds()), h.start)
		return
	}
	h.at(at+o.Hold.Seconds()+travels, h.arrive)
	h.at(at+1e-6, h.start)
}

func (h *hidden) arrive(at float64) {
	h.fill(at)
	if h.left < 1 {
		h.refused[h.index(at)]++
		if i := h.index(at); i == 2 && at < 2*h.phase+15 {
			h.halvedCalls++
			if at > h.blocked {
				h.halved++
			}
		}
		wait := (1 - h.left) / h.rates[h.index(at)]
		wait = math.Ceil(wait) // Retry-After has whole seconds
		h.blocked = max(h.blocked, at+wait)
		h.at(at+travels, func(at float64) {
			h.ask(at, bucket.Request{Op: bucket.OpBlock, For: time.Duration(wait * 1e9)})
		})
		return
	}
	h.left--
	h.used[h.index(at)]++
	if h.headers {
		left := math.Floor(h.left)
		h.at(at+answers, func(at float64) {
			h.ask(at, bucket.Request{
				Op: bucket.OpSync, Tokens: []float64{left},
				For: time.Duration((answers + travels) * 1e9),
			})
		})
	}
}

func (h *hidden) run() {
	h.refused, h.used = make([]int, len(h.rates)), make([]float64, len(h.rates))
	h.left = h.rates[0] * h.burst
	h.at(0, h.start)
	for len(h.events) > 0 {
		e := heap.Pop(&h.events).(worldEvent)
		if e.at >= h.phase*float64(len(h.rates)) {
			return
		}
		e.do(e.at)
	}
}

// A fleet that always has tasks, beside a provider whose limit halves after three minutes and doubles again after six:
// what is used, and what a change costs. The figures of more worlds are in docs/decisions/0005-adaptive-limits.md.
func TestAdaptiveFindsAHiddenLimit(t *testing.T) {
	t.Parallel()
	for _, headers := range []bool{false, true} {
		for _, burst := range []float64{1, 10, 60} {
			for _, rate := range []float64{10, 50} {
				t.Run(fmt.Sprintf("%v a second, burst %v s, headers %v", rate, burst, headers), func(t *testing.T) {
					t.Parallel()
					h := &hidden{rates: []float64{rate, rate, rate / 2, rate}, phase: 180, burst: burst, headers: headers}
					h.limit = limitOf(reservations.Meter{
						Name: "m", Rate: rate / 5, Period: time.Second, Capacity: rate,
						Adaptive: reservations.Adaptive{Max: 2 * rate},
					})
					h.run()
					used, all := 0., 0.
					for i := 1; i < len(h.rates); i++ { // the first phase begins at the lowest rate
						used, all = used+h.used[i], all+h.rates[i]*h.phase
					}
					if used < .92*all {
						t.Errorf("%.1f %% of the hidden limit was used, want 92 %%", 100*used/all)
					}
					if h.halved > 3 || h.halvedCalls > 15 {
						t.Errorf("the halved limit cost %d blocks and %d refused calls in 15 s, want at most 3 and 15",
							h.halved, h.halvedCalls)
					}
					if headers && h.refused[1] > 0 {
						t.Errorf("%d calls refused at a constant limit, want none with headers", h.refused[1])
					}
				})
			}
		}
	}
}

// A known limit needs no adaptive meter, and then no call is refused.
func TestAdaptiveOffIsNeverRefused(t *testing.T) {
	t.Parallel()
	for _, burst := range []float64{1, 60} {
		h := &hidden{rates: []float64{50, 50}, phase: 120, burst: burst}
		h.limit = limitOf(perSecond("m", 50, 50*burst, inf))
		h.run()
		if h.refused[0]+h.refused[1] > 0 || h.used[1] < .99*50*h.phase {
			t.Errorf("burst %v: refused %v, used %v; want none, and 99 %% of %v", burst, h.refused, h.used, 50*h.phase)
		}
	}
}
