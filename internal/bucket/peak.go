package bucket

import (
	"slices"
	"time"
)

// Peak is a moment up to which a balance was high. What a provider gives back while its balance is full is lost. So a
// late settlement gives back no more than there was room for ever since its call ended.
type Peak struct {
	At time.Time `bson:"a"`
	// Room is what Started lacked to the capacity just before At.
	Room float64 `bson:"r"`
}

// peaksMost is how many peaks a balance keeps, each higher than all later ones.
const peaksMost = 3

// peaked is s with a peak at a moment, at which less may be there from now on.
func (s Balance) peaked(at time.Time, room float64) Balance {
	peaks := make([]Peak, 0, len(s.Peaks)+1)
	for _, p := range s.Peaks {
		if p.Room < room {
			peaks = append(peaks, p)
		} else {
			at = Later(at, p.At)
		}
	}
	if peaks = append(peaks, Peak{at, room}); len(peaks) > peaksMost {
		peaks = joined(peaks)
	}
	s.Peaks = peaks
	return s
}

// joined has one peak less: the two that are most alike become one that is as high and as late as both.
func joined(peaks []Peak) []Peak {
	n := 0
	for i := range peaks[1:] {
		if peaks[i+1].Room-peaks[i].Room < peaks[n+1].Room-peaks[n].Room {
			n = i
		}
	}
	peaks[n] = Peak{Later(peaks[n].At, peaks[n+1].At), min(peaks[n].Room, peaks[n+1].Room)}
	return slices.Delete(peaks, n+1, n+2)
}

// peak notes what the balances had before a request that took from them, at the end of its hold. Where the provider
// itself has said what it has, that includes what earlier calls gave back.
func (b *Bucket) peak(before Bucket, r Request, hold time.Duration) {
	at := b.At.Add(hold)
	for k, was := range before.Meters {
		more := b.Meters[k].Started - was.Started
		if more > 0 {
			b.Meters[k].Peaks = raised(was.Peaks, b.gone(r), more)
		}
		if more >= 0 || was.Filling.InFlight {
			continue
		}
		room := was.Filling.Capacity - was.Started - before.comes(was.Filling, at)
		if r.Op == OpBlock || r.Op == OpRefuse || r.Op == OpSync {
			room = 0
		}
		b.Meters[k] = b.Meters[k].peaked(at, max(0, room))
	}
}

// raised returns the peaks, higher after a moment. Some may be ahead, at the ends of holds.
func raised(peaks []Peak, since time.Time, more float64) []Peak {
	if !slices.ContainsFunc(peaks, func(p Peak) bool { return p.At.After(since) }) {
		return peaks
	}
	peaks = slices.Clone(peaks)
	for i := range peaks {
		if peaks[i].At.After(since) {
			peaks[i].Room = max(0, peaks[i].Room-more)
		}
	}
	return peaks
}

// gone is since when a provider has had what a request gives back.
func (b *Bucket) gone(r Request) time.Time {
	since := b.At.Add(-r.Late)
	switch {
	case r.Op != OpSettle:
	case !r.Began.IsZero():
		return r.Began
	case !r.Ended.IsZero() && r.Ended.Before(since) && b.At.Sub(r.Ended) > LateMost:
		return r.Ended
	}
	return since
}

// returns is how much of n tokens a provider has kept that it has had since a moment.
func (b *Bucket) returns(s Balance, n float64, since time.Time) float64 {
	if !since.Before(b.At) {
		return n
	}
	for _, p := range s.Peaks {
		if p.At.After(since) {
			n = min(n, max(0, p.Room))
		}
	}
	return n
}

// peaksMoved is a copy of the peaks that are later by d.
func (s Balance) peaksMoved(d time.Duration) []Peak {
	peaks := slices.Clone(s.Peaks)
	for i := range peaks {
		peaks[i].At = peaks[i].At.Add(d)
	}
	return peaks
}
