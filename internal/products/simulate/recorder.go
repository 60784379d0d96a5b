package simulate

import "time"

const (
	// samplesMost is how many samples a time series has at most: more than an SVG shows.
	samplesMost = 720
	// stepFirst is the distance of samples at first. It doubles when there are too many.
	stepFirst = time.Second
	// metersMost is how many meters have a time series.
	metersMost = 32
)

// recorder samples a simulation. When it has too many samples, it joins each two.
type recorder struct {
	step             time.Duration
	ends             time.Duration // of the present sample
	waiting, calling int           // now
	now              sample        // the present sample
	samples          []sample
}

type sample struct {
	waiting, calling int // the most
	taken            []float64
}

// advance ends all samples before a moment.
func (r *recorder) advance(at time.Duration) {
	for at >= r.ends {
		r.samples = append(r.samples, r.now)
		r.now = sample{waiting: r.waiting, calling: r.calling}
		r.ends += r.step
		if len(r.samples) == samplesMost {
			r.join()
		}
	}
}

// join makes one sample of each two.
func (r *recorder) join() {
	half := r.samples[:0]
	for i := 0; i+1 < len(r.samples); i += 2 {
		a, b := r.samples[i], r.samples[i+1]
		a.waiting, a.calling = max(a.waiting, b.waiting), max(a.calling, b.calling)
		if len(a.taken) < len(b.taken) {
			a.taken, b.taken = b.taken, a.taken
		}
		for k, n := range b.taken {
			a.taken[k] += n
		}
		half = append(half, a)
	}
	r.samples = half
	r.step *= 2
	r.ends = time.Duration(len(half)+1) * r.step
}

// note notes how many calls wait and run from now on.
func (r *recorder) note(waiting, calling int) {
	r.waiting, r.calling = waiting, calling
	r.now.waiting, r.now.calling = max(r.now.waiting, waiting), max(r.now.calling, calling)
}

// take notes tokens that a start took.
func (r *recorder) take(b *box, k int, n float64) {
	at := b.series + k
	if at >= metersMost {
		return
	}
	for len(r.now.taken) <= at {
		r.now.taken = append(r.now.taken, 0)
	}
	r.now.taken[at] += n
}
