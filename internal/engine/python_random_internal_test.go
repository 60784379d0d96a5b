package engine

import (
	"math"
	"math/bits"
	"testing"
)

// pythonRandom is Python's random.Random: the Mersenne Twister and the distributions that the reference simulation
// draws from. So the scenarios have exactly the inputs of the reference.
type pythonRandom struct {
	state [624]uint32
	next  int
}

// newPythonRandom seeds like random.Random(seed), for a seed of at most 32 bits.
func newPythonRandom(seed uint32) *pythonRandom {
	r := &pythonRandom{next: 624}
	s := &r.state
	s[0] = 19650218
	for i := 1; i < len(s); i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i := 1
	mix := func(factor, add uint32) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*factor) + add
		if i++; i == len(s) {
			s[0], i = s[len(s)-1], 1
		}
	}
	for range len(s) {
		mix(1664525, seed)
	}
	for range len(s) - 1 {
		mix(1566083941, -uint32(i))
	}
	s[0] = 0x80000000
	return r
}

func (r *pythonRandom) uint32() uint32 {
	s := &r.state
	if r.next == len(s) {
		for i := range s {
			y := s[i]&0x80000000 | s[(i+1)%624]&0x7fffffff
			s[i] = s[(i+397)%624] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		r.next = 0
	}
	y := s[r.next]
	r.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// float is random(): evenly in [0, 1).
func (r *pythonRandom) float() float64 {
	a, b := r.uint32()>>5, r.uint32()>>6
	return (float64(a)*67108864 + float64(b)) / 9007199254740992
}

// below is _randbelow(n): evenly in [0, n).
func (r *pythonRandom) below(n int) int {
	for {
		if x := int(r.uint32() >> (32 - bits.Len(uint(n)))); x < n {
			return x
		}
	}
}

func (r *pythonRandom) randint(a, b int) int { return a + r.below(b-a+1) }

func (r *pythonRandom) uniform(a, b float64) float64 { return a + (b-a)*r.float() }

// choose is choice(from).
func choose[T any](r *pythonRandom, from ...T) T { return from[r.below(len(from))] }

func (r *pythonRandom) lognormvariate(mu, sigma float64) float64 {
	for {
		u1, u2 := r.float(), 1-r.float()
		z := 4 * math.Exp(-0.5) / math.Sqrt2 * (u1 - 0.5) / u2
		if z*z/4 <= -math.Log(u2) {
			return math.Exp(mu + z*sigma)
		}
	}
}

func (r *pythonRandom) betavariate(alpha, beta float64) float64 {
	y := r.gammavariate(alpha)
	return y / (y + r.gammavariate(beta))
}

// gammavariate is gammavariate(alpha, 1) for alpha > 1.
func (r *pythonRandom) gammavariate(alpha float64) float64 {
	ainv := math.Sqrt(2*alpha - 1)
	for {
		u1 := r.float()
		if u1 <= 1e-7 || u1 >= .9999999 {
			continue
		}
		u2 := 1 - r.float()
		v := math.Log(u1/(1-u1)) / ainv
		x := alpha * math.Exp(v)
		z := u1 * u1 * u2
		w := alpha - math.Log(4) + (alpha+ainv)*v - x
		if w+1+math.Log(4.5)-4.5*z >= 0 || w >= math.Log(z) {
			return x
		}
	}
}

// The values are from Python 3, for r = random.Random(seed) and these calls, in this order.
func TestPythonRandom(t *testing.T) {
	t.Parallel()
	for _, c := range pythonRandomTable {
		r := newPythonRandom(c.seed)
		got := []float64{
			r.float(), r.lognormvariate(1, .8), r.betavariate(2, 5), float64(r.randint(1, 30)), float64(r.randint(500, 1000)),
			r.uniform(.2, .5), choose(r, 300., 800., 1500.),
		}
		for range 1000 { // past the first refill of the state
			got[0] += r.float()
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("seed %d: draw %d is %v, Python's is %v", c.seed, i, got[i], c.want[i])
			}
		}
	}
}

var pythonRandomTable = []struct {
	seed uint32
	want [7]float64
}{
	{0, [7]float64{491.9859846990985, 5.007743849786722, 0.19859162415812487, 10.0, 995.0, 0.3429790862457067, 1500.0}},
	{3, [7]float64{495.1177765830332, 2.993203472756409, 0.22806759689139008, 8.0, 598.0, 0.49869345065313886, 800.0}},
	{499, [7]float64{502.3392946735485, 5.404137320228209, 0.4874425441256418, 3.0, 633.0, 0.32783108356644075, 800.0}},
	{
		4294967295,
		[7]float64{490.10676378430463, 0.9632487634533399, 0.21961749986090154, 29.0, 955.0, 0.2838971809038934, 800.0},
	},
}
