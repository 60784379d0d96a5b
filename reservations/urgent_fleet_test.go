package reservations_test

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// classReport is what the reference prints of a classScenario.
type classReport struct {
	fleetReport

	p50, p99, last float64 // seconds that urgent tasks waited
	urgent, low    classDeliveries
	lowLost        float64 // most places lost by an ordinary task, in % of them
	gap            float64 // longest time between two starts of ordinary tasks
	share          float64 // least share of the limit that ordinary ones had in 10 s of overload; not a number where there is none
}

type classDeliveries struct {
	mean float64
	most int
}

func (s *classScenario) report() classReport {
	r := classReport{fleetReport: s.fleet.report(), share: math.NaN()}
	var waits, starts []float64
	var low []int
	total, count := [2]float64{}, [2]float64{}
	for i, urgent := range s.urgent {
		class, to := 0, &r.low
		if urgent {
			class, to = 1, &r.urgent
			if at := s.arrive(i); (at < s.outage[0] || at >= s.outage[1]) && (at < s.blocked-.3 || at >= s.blockedUntil) {
				waits = append(waits, s.startOf[i]-at)
			}
		} else {
			low, starts = append(low, i), append(starts, s.startOf[i])
		}
		count[class]++
		total[class] += float64(s.deliveries[i])
		to.most = max(to.most, s.deliveries[i])
	}
	r.low.mean, r.urgent.mean = total[0]/max(1, count[0]), total[1]/max(1, count[1])
	if slices.Sort(waits); len(waits) > 0 {
		at := func(q float64) float64 { return waits[min(len(waits)-1, int(q*float64(len(waits))))] }
		r.p50, r.p99, r.last = at(.5), at(.99), waits[len(waits)-1]
	}
	return s.ordinary(r, low, starts)
}

// ordinary fills in what became of the ordinary tasks.
func (s *classScenario) ordinary(r classReport, low []int, starts []float64) classReport {
	order := slices.Clone(low)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.startOf[a], s.startOf[b]) })
	for place, task := range order {
		r.lowLost = max(r.lowLost, 100*float64(place-slices.Index(low[:min(len(low), task+1)], task))/float64(len(low)))
	}
	slices.Sort(starts)
	for i := 1; i < len(starts); i++ {
		r.gap = max(r.gap, starts[i]-starts[i-1])
	}
	if s.over == never || len(starts) == 0 {
		return r
	}
	bySecond := make([]float64, int(max(s.over[1], starts[len(starts)-1]))+20)
	for _, i := range low {
		bySecond[int(s.startOf[i])] += s.charge[i][0]
	}
	rate := s.limit.Meters[0].RatePerSecond()
	for t := int(s.over[0]) + 5; t < int(s.over[1])-10 && t+10 < int(r.until(s)); t++ {
		sum := 0.
		for _, x := range bySecond[t : t+10] {
			sum += x
		}
		if share := sum / (10 * rate); math.IsNaN(r.share) || share < r.share {
			r.share = share
		}
	}
	return r
}

// until is when the last task started.
func (r classReport) until(s *classScenario) float64 {
	last := 0.
	for _, m := range s.starts {
		last = max(last, m.at)
	}
	return last
}

// classResults reads what the reference printed, by scenario.
func classResults(t *testing.T) map[string]classReport {
	t.Helper()
	file, err := os.Open("testdata/urgent_results.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results := map[string]classReport{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, figures, _ := strings.Cut(lines.Text(), "done=")
		r, share, done := classReport{}, "", ""
		_, err := fmt.Sscanf(figures, "%s util=%f win=%f early=%d hi=(%f, %f, %f) hidel=(%f, %d) lodel=(%f, %d) lolost=%f gap=%f lowshare=%s",
			&done, &r.util, &r.win, &r.early, &r.p50, &r.p99, &r.last, &r.urgent.mean, &r.urgent.most, &r.low.mean, &r.low.most, &r.lowLost, &r.gap, &share)
		if err != nil || done != "True" {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if r.share = math.NaN(); share != "None" {
			if _, err := fmt.Sscanf(share, "%f", &r.share); err != nil {
				t.Fatal(err)
			}
		}
		results[strings.TrimSpace(name)] = r
	}
	return results
}

// Every scenario of the simulation of priorities does as well here, but for what rounding and ties decide.
func TestUrgentScenarios(t *testing.T) {
	t.Parallel()
	reference := classResults(t)
	all := classScenarios()
	if len(all) != len(reference) {
		t.Errorf("%d scenarios, the reference has %d", len(all), len(reference))
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			want, ok := reference[s.name]
			if !ok {
				t.Fatal("not in testdata/urgent_results.txt")
			}
			s.simulate()
			got := s.report()
			t.Logf("\n got %+v\nwant %+v", got, want)
			got.compare(t, &s, want)
		})
	}
}

func (r classReport) compare(t *testing.T, s *classScenario, want classReport) {
	t.Helper()
	if r.done != s.tasks || r.early > 0 {
		t.Errorf("%d of %d tasks started, %d of them during the block", r.done, s.tasks, r.early)
	}
	if r.util < want.util-.005 {
		t.Errorf("share of the limit is %.4f, want at least %.3f", r.util, want.util)
	}
	if r.win > 1.0005 || r.held > 1+1e-9 {
		t.Errorf("fullest window is %.4f of what is allowed (%.4f with hold)", r.win, r.held)
	}
	if r.p99 > want.p99*1.05+.06 || r.last > want.last*1.1+.1 {
		t.Errorf("urgent tasks wait %.3f s (p99), %.3f at most; want %.2f, %.2f", r.p99, r.last, want.p99, want.last)
	}
	if r.urgent.mean > want.urgent.mean+.05 || r.urgent.most > want.urgent.most+1 || r.low.mean > want.low.mean+.05 || r.low.most > want.low.most+2 {
		t.Errorf("deliveries are %v and %v, want at most %v and %v", r.urgent, r.low, want.urgent, want.low)
	}
	if r.lowLost > want.lowLost*1.1+.2 || r.gap > want.gap*1.2+.2 {
		t.Errorf("places lost by ordinary tasks are %.3f %%, longest gap %.2f s; want at most %.2f, %.1f", r.lowLost, r.gap, want.lowLost, want.gap)
	}
	if r.share < want.share*.9 {
		t.Errorf("ordinary tasks had %.3f of the limit in 10 s of overload, want at least %.3f", r.share, want.share)
	}
}

// Random fleets with headroom and urgent tasks, and all that TestFleetRandom may do to them: no window above the promise, no start during a block, nobody
// left over.
func TestUrgentRandom(t *testing.T) {
	t.Parallel()
	const fleets, groups = 300, 6 // groups run in parallel
	for g := range groups {
		t.Run(fmt.Sprintf("seeds %d..%d", g*fleets/groups, (g+1)*fleets/groups-1), func(t *testing.T) {
			t.Parallel()
			for seed := g * fleets / groups; seed < (g+1)*fleets/groups; seed++ {
				f := randomFleet(uint32(seed))
				r := newPythonRandom(uint32(seed))
				f.limit.OrdinaryShare = choose(r, 0, .05, .3)
				for k, m := range f.limit.Meters {
					f.limit.Meters[k].Headroom = m.Cap() * choose(r, .05, .2, .5, .9)
				}
				share := choose(r, .1, .5, .9)
				for range f.tasks {
					f.urgent = append(f.urgent, r.float() < share)
				}
				f.simulate()
				if r := f.report(); r.done < f.tasks || r.early > 0 || r.most > 20 || r.win > 1.0005 || r.held > 1+1e-9 {
					t.Errorf("seed %d: %d tasks, %+v", seed, f.tasks, r)
				}
			}
		})
	}
}

// In overload by urgent tasks ordinary ones keep their share, as soon as the headroom was used and could fill at their share once, whatever the rate and the headroom; urgent ones within their part of the rate wait
// no longer than a delivery takes.
func TestUrgentShare(t *testing.T) {
	longtest.Only(t, 30*time.Second)
	t.Parallel()
	r, d := newPythonRandom(11), draws{}
	for n := range 30 {
		rate, share := choose(r, 20., 100, 400), choose(r, .05, .1, .3, .5)
		limit := withHeadroom(limitOf(perSecond("tokens", rate, rate, choose(r, math.Inf(1), 2*rate))), rate*choose(r, .25, .3, .5))
		limit.OrdinaryShare = share
		low := d.low(int(40*rate), 0)
		first := 5 + (limit.Meters[0].Headroom+1)/(share*rate) // the headroom fills at their share before one starts
		over := classScenario{strconv.Itoa(n), classFleet(fleet{limit: limit}, low, d.tasks(true, poisson(r, 1.3*rate, 5, 65))), [2]float64{first, 65}}
		within := classScenario{strconv.Itoa(n), classFleet(fleet{limit: limit}, low, d.tasks(true, poisson(r, .6*(1-share)*rate, 5, 35))), never}
		for _, s := range []*classScenario{&over, &within} {
			s.simulate()
			got := s.report()
			if got.done < s.tasks || got.win > 1.0005 || got.held > 1+1e-9 || got.lowLost > 1 {
				t.Errorf("%+v: %d tasks, %+v", limit, s.tasks, got)
			}
			if s == &over && got.share < .7*share {
				t.Errorf("%+v: ordinary tasks had %v of the limit in 10 s of overload", limit, got.share)
			}
			if s == &within && got.p99 > .25 {
				t.Errorf("%+v: urgent tasks wait %v s (p99)", limit, got.p99)
			}
		}
	}
}
