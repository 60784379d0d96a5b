package simulate_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

// world is a random world of one limit.
type world struct {
	rate, capacity float64
	calls          []simulate.Call
	tokens         []float64
	limit          reservations.Limit
}

// GoString keeps the output of a failed test short.
func (w world) GoString() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%v/s, capacity %v", w.rate, w.capacity)
	for i, c := range w.calls {
		fmt.Fprintf(&text, "; %v: %v of %s for %v", c.At, w.tokens[i], c.Charges[0].Flow, c.Latency)
	}
	return text.String()
}

func worlds(flows int) *rapid.Generator[world] {
	return rapid.Custom(func(t *rapid.T) world {
		w := world{
			rate:     rapid.Float64Range(.1, 50).Draw(t, "rate"),
			capacity: rapid.Float64Range(1, 100).Draw(t, "capacity"),
		}
		w.limit = perSecond("api", w.rate, w.capacity)
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 150).Draw(t, "calls") {
			if rapid.Bool().Draw(t, "later") {
				at += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond
			}
			n := rapid.Float64Range(.01, min(10, w.capacity)).Draw(t, "tokens")
			c := charge("api", n)
			c.Flow = string(rune('a' + i%flows))
			w.calls = append(w.calls, simulate.Call{
				At: at, Charges: []reservations.Charge{c},
				Latency: time.Duration(rapid.IntRange(0, 10_000).Draw(t, "latency")) * time.Millisecond,
			})
			w.tokens = append(w.tokens, n)
		}
		return w
	})
}

// start is one start of a call.
type start struct {
	at     time.Duration
	call   int
	tokens float64
}

// starts are the starts of a world in their order.
func (w world) starts(t *rapid.T, config simulate.Config) (all []start, r simulate.Result) {
	config.Observe = func(call int, at time.Duration) {
		all = append(all, start{at: at, call: call, tokens: w.tokens[call]})
	}
	r, err := simulate.Run([]reservations.Limit{w.limit}, w.calls, config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return all, r
}

// No window of any length has more starts than the capacity and what came back in it: counted by sums alone.
func TestNoWindowHasTooManyStarts(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		w := worlds(3).Draw(t, "world")
		all, r := w.starts(t, simulate.Config{})
		if len(all) != len(w.calls) || r.Done != len(w.calls) {
			t.Fatalf("%d of %d calls started, %d done", len(all), len(w.calls), r.Done)
		}
		for i := range all {
			sum := 0.
			for _, s := range all[i:] {
				sum += s.tokens
				if most := w.capacity + w.rate*(s.at-all[i].at).Seconds(); sum > most+1e-5 {
					t.Fatalf("%v tokens start from %v to %v: at most %v", sum, all[i].at, s.at, most)
				}
			}
		}
	})
}

// While calls wait, no token is lost: a call starts as soon as a meter that is written down here has its tokens.
func TestABacklogUsesEverything(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		w := worlds(1).Draw(t, "world")
		all, _ := w.starts(t, simulate.Config{})
		balance := w.capacity
		for i, c := range w.calls { // one flow: first come, first served
			if all[i].call != i {
				t.Fatalf("start %d is that of call %d", i, all[i].call)
			}
			from := time.Duration(0)
			if i > 0 {
				from = all[i-1].at
			}
			balance = min(w.capacity, balance+w.rate*(max(c.At, from)-from).Seconds())
			expected := max(c.At, from)
			if short := w.tokens[i] - balance; short > 0 {
				expected += time.Duration(short / w.rate * float64(time.Second))
				balance = w.tokens[i]
			}
			balance -= w.tokens[i]
			if late := all[i].at - expected; late.Abs() > time.Millisecond {
				t.Fatalf("call %d starts at %v, expected at %v", i, all[i].at, expected)
			}
		}
	})
}

// Within a flow, calls start in the order of their arrival.
func TestFlowsAreFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		w := worlds(4).Draw(t, "world")
		all, _ := w.starts(t, simulate.Config{Slots: rapid.IntRange(0, 20).Draw(t, "slots")})
		last := map[string]int{}
		for _, s := range all {
			flow := w.calls[s.call].Charges[0].Flow
			if before, seen := last[flow]; seen && s.call < before {
				t.Fatalf("call %d of flow %s starts after call %d", s.call, flow, before)
			}
			last[flow] = s.call
		}
	})
}

// Flows of equal weight that all wait have started about the same number of tokens at any time.
func TestEqualFlowsShareEvenly(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		flows := rapid.IntRange(2, 6).Draw(t, "flows")
		w := worlds(flows).Draw(t, "world")
		w.limit.Meters[0].Capacity = reservations.None
		left, largest := map[string]float64{}, 0.
		for i := range w.calls {
			w.calls[i].At = 0
			left[w.calls[i].Charges[0].Flow] += w.tokens[i]
			largest = max(largest, w.tokens[i])
		}
		all, _ := w.starts(t, simulate.Config{})
		waits := map[string]int{}
		for _, c := range w.calls {
			waits[c.Charges[0].Flow]++
		}
		started := map[string]float64{}
		for _, s := range all {
			flow := w.calls[s.call].Charges[0].Flow
			if s.at > bucket.Hold { // else it did not wait in the list
				started[flow] += s.tokens
			}
			if waits[flow]--; waits[flow] == 0 {
				return // from now on not all flows wait
			}
			var sums []float64
			for name := range left {
				sums = append(sums, started[name])
			}
			if apart := slices.Max(sums) - slices.Min(sums); apart > 2*largest+1e-6 {
				t.Fatalf("flows are %v tokens apart after %v, the largest call takes %v", apart, s.at, largest)
			}
		}
	})
}

// A larger limit lets no call of one flow start later.
func TestALargerPlanIsNoSlower(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		w := worlds(1).Draw(t, "world")
		before, _ := w.starts(t, simulate.Config{})
		w.limit = simulate.Doubled(w.limit)
		after, _ := w.starts(t, simulate.Config{})
		order := func(a, b start) int { return cmp.Compare(a.call, b.call) }
		slices.SortFunc(before, order)
		slices.SortFunc(after, order)
		for i := range before {
			if after[i].at > before[i].at+time.Microsecond {
				t.Fatalf("call %d starts at %v with twice the limit, %v before", i, after[i].at, before[i].at)
			}
		}
	})
}

// Every simulation ends, whatever the limits and the charges are: two limits a call, calls in flight, headroom, shards,
// few slots, refusals, and charges that are nearly nothing. No more calls run at once than there are slots.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		w := worlds(3).Draw(t, "world")
		tiny := rapid.Bool().Draw(t, "tiny")
		w.limit.Shards = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "shards")
		w.limit.Meters[0].Capacity = 1.001 * w.capacity * float64(max(1, w.limit.Shards)) // a shard holds the largest charge
		w.limit.Meters[0].Headroom = rapid.SampledFrom([]float64{0, w.capacity / 2}).Draw(t, "headroom")
		narrow := perSecond("tenant", rapid.Float64Range(.1, 50).Draw(t, "narrow"), 10)
		flying := float64(rapid.IntRange(1, 10).Draw(t, "in flight"))
		narrow.Meters = append(narrow.Meters, reservations.InFlight(int(flying)))
		for i := range w.calls {
			c := w.calls[i].Charges[0]
			if tiny {
				c.Tokens = reservations.Tokens{"requests": w.tokens[i] * 1e-9}
			}
			c.Urgent = i%5 == 0
			w.calls[i].Charges = []reservations.Charge{c}
			if i%3 > 0 {
				w.calls[i].Charges = []reservations.Charge{charge("tenant", w.tokens[i]), c}
				w.calls[i].Charges[0].Key = c.Flow
			}
			w.calls[i].Used = reservations.Tokens{"requests": w.tokens[i] / 2}
		}
		config := simulate.Config{
			Slots: rapid.IntRange(0, 5).Draw(t, "slots"), Refuse: rapid.SampledFrom([]float64{0, .2}).Draw(t, "refuse"),
			RetryAfter: time.Second, Large: true, Seed: rapid.Uint64().Draw(t, "seed"),
		}
		r, err := simulate.Run([]reservations.Limit{narrow, w.limit}, w.calls, config)
		if err != nil {
			t.Fatal(err)
		}
		if running, most := r.Running.Most, config.Slots; most > 0 && running > most {
			t.Errorf("%d calls run in %d slots", running, most)
		}
		if r.Done+r.Failed != len(w.calls) {
			t.Errorf("%d done and %d failed of %d", r.Done, r.Failed, len(w.calls))
		}
	})
}
