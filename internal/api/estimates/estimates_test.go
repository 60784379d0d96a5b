package estimates_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/test/seeded"
)

// distributions are distributions of the ratio of used to estimated tokens.
var distributions = map[string]func(*rand.Rand) float64{
	"uniform":       func(r *rand.Rand) float64 { return 0.2 + 0.3*r.Float64() },
	"nearly always": func(*rand.Rand) float64 { return 0.37 },
	"log-normal":    func(r *rand.Rand) float64 { return math.Exp(0.25*r.NormFloat64() - 1) },
	"small":         func(r *rand.Rand) float64 { return 0.004 + 0.004*r.Float64() },
	"large":         func(r *rand.Rand) float64 { return 20 + 10*r.Float64() },
}

// truth returns the quantile of many draws.
func truth(draw func(*rand.Rand) float64, q float64) float64 {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]float64, 100_000)
	for i := range all {
		all[i] = draw(r)
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

// After 200 requests the learned quantile is within a tenth of the true one.
func TestConvergence(t *testing.T) {
	t.Parallel()
	for name, draw := range distributions {
		for _, q := range []float64{0.5, 0.9} {
			want := truth(draw, q)
			for seed := range uint64(20) {
				r := rand.New(rand.NewPCG(seed, 7))
				var h estimates.Histogram
				for range 200 {
					h.Add(draw(r))
				}
				got, ok := h.Quantile(q)
				if !ok || math.Abs(got/want-1) > 0.1 {
					t.Errorf("%s, seed %d: quantile %v is %v, want %v", name, seed, q, got, want)
				}
			}
		}
	}
}

// After 500 new requests, older ones have no effect.
func TestFollowsAChange(t *testing.T) {
	t.Parallel()
	for before := 0; before < 600; before += 13 {
		l, err := estimates.New(estimates.Config{Quantile: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		observe := func(n int, used float64) {
			for range n {
				l.Observe(estimates.Sample{
					Limit: "a", Model: "m", Estimated: estimates.Tokens{Input: 100, Output: 100},
					Used: estimates.Tokens{Input: 100, Output: used},
				})
			}
		}
		observe(before, 90)
		observe(500, 20)
		if got := l.Ratios("a", "m").Output; math.Abs(got/0.2-1) > 0.05 {
			t.Errorf("after %d others: %v, want 0.2", before, got)
		}
	}
}

func TestHistogramIsNeverNonsense(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		var h estimates.Histogram
		for _, r := range rapid.SliceOf(rapid.Float64()).Draw(t, "ratios") {
			h.Add(r)
		}
		for _, r := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
			n := h.N()
			if h.Add(r); h.N() != n {
				t.Fatalf("%v was counted", r)
			}
		}
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		lower, ok := h.Quantile(min(a, b))
		upper, _ := h.Quantile(max(a, b))
		if ok != (h.N() > 0) || !(lower >= 1./256 && upper <= 256 && lower <= upper) {
			t.Fatalf("quantiles %v to %v, %v", lower, upper, ok)
		}
		if r, _ := h.Quantile(math.NaN()); r != 1 {
			t.Fatalf("quantile NaN is %v", r)
		}
	})
}

func TestQuantileIsWithinABin(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		ratios := rapid.SliceOfN(rapid.Float64Range(1./200, 200), 1, 300).Draw(t, "ratios")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var h estimates.Histogram
		for _, r := range ratios {
			h.Add(r)
		}
		slices.Sort(ratios)
		want := ratios[max(0, int(math.Ceil(q*float64(len(ratios))))-1)]
		if got, _ := h.Quantile(q); math.Abs(math.Log2(got/want)) > 1./16+1e-9 {
			t.Fatalf("quantile %v is %v, want %v", q, got, want)
		}
	})
}

func drawCounts(t *rapid.T, name string) *estimates.Counts {
	var c estimates.Counts
	for range rapid.IntRange(0, 30).Draw(t, name) {
		tokens := rapid.IntRange(0, 1000)
		c.Add(estimates.Sample{
			Estimated: estimates.Tokens{
				Input:  float64(tokens.Draw(t, "input")),
				Output: float64(tokens.Draw(t, "output")),
			},
			Used: estimates.Tokens{
				Input:  float64(tokens.Draw(t, "used")),
				Output: float64(tokens.Draw(t, "answered")),
			},
			Open: rapid.Bool().Draw(t, "open"), Reserved: float64(tokens.Draw(t, "reserved")),
		})
	}
	return &c
}

func TestMergingIsCommutative(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		a, b, c := drawCounts(t, "a"), drawCounts(t, "b"), drawCounts(t, "c")
		merged := func(all ...*estimates.Counts) (sum estimates.Counts) {
			for _, one := range all {
				sum.Merge(one)
			}
			return sum
		}
		want := merged(a, b, c)
		ab := merged(a, b)
		for _, got := range []estimates.Counts{merged(c, b, a), merged(&ab, c), merged(b, a, c)} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// Whatever was observed, reservations stay within their bounds.
func TestScaleIsBounded(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		l, err := estimates.New(estimates.Config{Quantile: rapid.Float64Range(0, 1).Draw(t, "q")})
		if err != nil {
			t.Fatal(err)
		}
		any64 := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1e6))
		for range rapid.IntRange(0, 100).Draw(t, "n") {
			l.Observe(estimates.Sample{
				Estimated: estimates.Tokens{Input: any64.Draw(t, "input"), Output: any64.Draw(t, "output")},
				Used:      estimates.Tokens{Input: any64.Draw(t, "used"), Output: any64.Draw(t, "answered")},
				Open:      rapid.Bool().Draw(t, "open"), Reserved: any64.Draw(t, "reserved"),
			})
		}
		most := estimates.Tokens{
			Input:  float64(rapid.IntRange(0, 1e6).Draw(t, "prompt")),
			Output: float64(rapid.IntRange(0, 1e6).Draw(t, "max")),
		}
		got := l.Ratios("", "").Scale(most, false)
		if !(got.Input >= 0 && got.Input <= 4*most.Input && got.Output >= 0 && got.Output <= most.Output) ||
			(got.Total() == 0) != (most.Total() == 0) {
			t.Fatalf("%+v became %+v", most, got)
		}
		if open := l.Ratios("", "").Scale(most, true); !(open.Output <= 64*most.Output) || open.Input != got.Input {
			t.Fatalf("%+v became %+v", most, open)
		}
		for _, one := range l.Learned() {
			if text := fmt.Sprintf("%+v", one); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Fatal(text)
			}
		}
	})
}

// Few requests scale nothing. Then nine of ten requests use less than reserved, and Learned returns the error.
func TestLearner(t *testing.T) {
	t.Parallel()
	l, err := estimates.New(estimates.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	request := estimates.Tokens{Input: 100, Output: 1000}
	var exceeded, reserved, used float64
	for i := range 1000 {
		expected := l.Ratios("a", "m").Scale(request, false)
		if i < 20 && expected != request {
			t.Fatalf("after %d requests %+v is reserved", i, expected)
		}
		answer := estimates.Tokens{Input: 80, Output: 200 + 300*r.Float64()}
		if i >= 200 {
			reserved += expected.Total()
			used += answer.Total()
			if answer.Total() > expected.Total() {
				exceeded++
			}
		}
		l.Observe(estimates.Sample{
			Limit: "a", Model: "m", Estimated: request, Reserved: expected.Total(),
			Used: answer,
		})
	}
	if share := exceeded / 800; share < 0.05 || share > 0.15 {
		t.Errorf("%v of the requests used more than was reserved", share)
	}
	all := l.Learned()
	if len(all) != 1 || all[0].Key != (estimates.Key{Limit: "a", Model: "m"}) || all[0].N < 250 || all[0].N > 500 {
		t.Fatalf("%+v", all)
	}
	if got := all[0]; math.Abs(got.Reserved/got.Used/(reserved/used)-1) > 0.1 || got.ErrorP10 > got.ErrorP50 ||
		got.ErrorP50 > got.ErrorP90 || got.ErrorP90 < 1.3 {
		t.Errorf("%+v, reserved to used %v", got, reserved/used)
	}
	if got := l.Ratios("a", "another").Scale(request, true); got != request {
		t.Errorf("an unknown model: %+v", got)
	}
}

// At the median, the sum of reserved tokens equals the sum of used ones.
func TestMedianReservesWhatIsUsed(t *testing.T) {
	t.Parallel()
	l, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	var reserved, used float64
	for i := range 5000 {
		request := estimates.Tokens{Input: float64(50 + r.IntN(500)), Output: float64(50 + r.IntN(2000))}
		expected := l.Ratios("a", "m").Scale(request, false)
		answer := estimates.Tokens{
			Input:  math.Ceil(0.9 * request.Input),
			Output: math.Round((0.2 + 0.3*r.Float64()) * request.Output),
		}
		if i >= 2500 {
			reserved += expected.Total()
			used += answer.Total()
		}
		l.Observe(estimates.Sample{Limit: "a", Model: "m", Estimated: request, Used: answer})
	}
	if off := reserved/used - 1; math.Abs(off) > 0.05 {
		t.Errorf("reserved %v, used %v: %.1f %% off", reserved, used, 100*off)
	} else {
		t.Logf("reserved to used: %+.1f %%", 100*off)
	}
}

// Even if small requests have other ratios than large ones and are more frequent, the sum of reserved tokens equals
// the sum of used ones.
func TestMedianOfMixedSizes(t *testing.T) {
	t.Parallel()
	l, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	var reserved, used float64
	for i := range 5000 {
		request, share := estimates.Tokens{Input: float64(10 + r.IntN(20)), Output: float64(20 + r.IntN(40))}, 0.4
		if r.IntN(3) == 0 {
			request, share = estimates.Tokens{
				Input:  float64(100 + r.IntN(900)),
				Output: float64(200 + r.IntN(600)),
			}, 0.95
		}
		expected := l.Ratios("a", "m").Scale(request, false)
		answer := estimates.Tokens{
			Input:  math.Round(share * request.Input),
			Output: math.Round((0.2 + 0.3*r.Float64()) * request.Output),
		}
		if i >= 2500 {
			reserved += expected.Total()
			used += answer.Total()
		}
		l.Observe(estimates.Sample{Limit: "a", Model: "m", Estimated: request, Used: answer})
	}
	if off := reserved/used - 1; math.Abs(off) > 0.1 {
		t.Errorf("reserved %v, used %v: %.1f %% off", reserved, used, 100*off)
	} else {
		t.Logf("reserved to used: %+.1f %%", 100*off)
	}
}

// Set replaces the state; samples that were not shared yet still count.
func TestSharing(t *testing.T) {
	t.Parallel()
	l, err := estimates.New(estimates.Config{Quantile: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	key := estimates.Key{Limit: "a", Model: "m"}
	sample := estimates.Sample{
		Limit: "a", Model: "m", Estimated: estimates.Tokens{Output: 100},
		Used: estimates.Tokens{Output: 50},
	}
	l.Observe(sample)
	taken := l.Take()
	if taken[key].N != 1 || len(l.Take()) != 0 {
		t.Fatalf("%+v", taken)
	}
	l.Observe(sample)
	var fleet estimates.State
	for range 100 {
		fleet.Add(sample)
	}
	l.Set(key, fleet)
	if got := l.Learned()[0].N; got != 101 {
		t.Errorf("known of %d, want 101", got)
	}
	l.GiveBack(key, taken[key])
	if got := l.Take()[key].N; got != 2 {
		t.Errorf("%d to share, want 2", got)
	}
}

func TestLearnerIsBoundedAndSafe(t *testing.T) {
	t.Parallel()
	l, err := estimates.New(estimates.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range estimates.Known {
				l.Observe(estimates.Sample{
					Limit: "a", Model: fmt.Sprint(g, i), Estimated: estimates.Tokens{Input: 1},
					Used: estimates.Tokens{Input: 1},
				})
				if i%100 == 0 {
					l.Ratios("a", "m")
					for key, c := range l.Take() {
						l.GiveBack(key, c)
					}
				}
			}
		})
	}
	group.Wait()
	if n := len(l.Learned()); n != estimates.Known {
		t.Errorf("%d are known, want %d", n, estimates.Known)
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []estimates.Config{
		{Quantile: -1},
		{Quantile: 1.1},
		{Quantile: math.NaN()},
	} {
		if _, err := estimates.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
