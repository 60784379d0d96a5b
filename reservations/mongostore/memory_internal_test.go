package mongostore

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/reservations"
)

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := newMemory()
	for i := range 10_000 {
		m.folded(strconv.Itoa(i), known{bucket: reservations.Bucket{Version: 1}})
		m.find("0", swapAdaptive, nil) // used often, so it stays
	}
	if len(m.buckets) != memoryMax || m.recent.Len() != memoryMax {
		t.Errorf("remembers %d and %d of 10000 buckets, want %d", len(m.buckets), m.recent.Len(), memoryMax)
	}
	for name, want := range map[string]bool{"0": true, "1": false, "9999": true} {
		if _, _, ok := m.find(name, swapAdaptive, nil); ok != want {
			t.Errorf("bucket %s is remembered: %v, want %v", name, ok, want)
		}
	}
	m.forget("0")
	m.forget("nobody")
	m.missed("nobody")
	if _, _, ok := m.find("0", swapAdaptive, nil); ok || m.recent.Len() != memoryMax-1 {
		t.Error("a forgotten bucket is there")
	}
}

// An answer that was overtaken changes nothing.
func TestMemoryKeepsTheNewest(t *testing.T) {
	t.Parallel()
	m := newMemory()
	for _, c := range []struct{ generation, version, want int64 }{{1, 5, 5}, {1, 4, 5}, {1, 6, 6}, {2, 1, 1}} {
		m.swapped("a", known{bucket: reservations.Bucket{Generation: c.generation, Version: c.version}})
		if k, _, _ := m.find("a", swapAdaptive, nil); k.bucket.Version != c.want {
			t.Errorf("after version %d: remembers %d, want %d", c.version, k.bucket.Version, c.want)
		}
	}
}

// Each miss doubles the calls without a swap, and swaps that match in a row halve it.
func TestMemoryBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		version := int64(0)
		steady := func() known {
			version++
			return known{bucket: reservations.Bucket{Version: version}, steady: true, clock: time.Now(), heard: time.Now()}
		}
		untilSwap := func() (calls int) {
			for {
				if _, now, _ := m.find("a", swapAdaptive, nil); !now.IsZero() {
					return calls
				}
				m.folded("a", steady())
				calls++
			}
		}
		if got := untilSwap(); got != 1 {
			t.Errorf("the first swap came after %d calls, want 1", got)
		}
		for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 256} {
			m.missed("a")
			if got := untilSwap(); got != want {
				t.Errorf("%d calls without a swap, want %d", got, want)
			}
		}
		for range 3 * forgiven {
			m.swapped("a", steady())
		}
		m.missed("a")
		if got := untilSwap(); got != 64 {
			t.Errorf("%d calls without a swap, want 64", got)
		}
	})
}

// The moment of a swap is one that the server's clock has reached even where this machine's runs 1 ms a second faster.
func TestKnownNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		read := time.UnixMilli(1_700_000_000_000)
		for _, c := range []struct {
			passed time.Duration
			want   time.Duration
			ok     bool
		}{
			{0, 0, true},
			{900 * time.Microsecond, 0, true},
			{time.Millisecond, 0, true},
			{1100 * time.Microsecond, time.Millisecond, true},
			{500 * time.Millisecond, 499 * time.Millisecond, true},
			{time.Second, 999 * time.Millisecond, true},
			{time.Second + 1, 0, false},
			{-time.Millisecond, 0, false},
		} {
			now, ok := known{clock: read, heard: time.Now().Add(-c.passed)}.now()
			if ok != c.ok || ok && !now.Equal(read.Add(c.want)) {
				t.Errorf("after %v: %v %v, want %v %v", c.passed, now.Sub(read), ok, c.want, c.ok)
			}
		}
		if _, ok := (known{}).now(); ok {
			t.Error("a clock that was never read")
		}
	})
}

// The pipeline's answer is a reading of the server's clock only where it moved at.
func TestKnownThen(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	bucket := func(generation, version int64, at time.Time) reservations.Bucket {
		return reservations.Bucket{Generation: generation, Version: version, At: at}
	}
	before := known{bucket: bucket(1, 10, at)}
	for _, c := range []struct {
		name         string
		known        bool
		after        reservations.Bucket
		steady, read bool
	}{
		{"nobody else wrote", true, bucket(1, 13, at.Add(time.Millisecond)), true, true},
		{"the clock followed far back", true, bucket(1, 13, at.Add(-time.Hour)), true, true},
		{"the clock may be behind", true, bucket(1, 13, at), true, false},
		{"somebody wrote", true, bucket(1, 14, at.Add(time.Millisecond)), false, false},
		{"made anew", true, bucket(2, 13, at.Add(time.Millisecond)), false, false},
		{"not known before", false, bucket(1, 13, at.Add(time.Millisecond)), false, false},
	} {
		k := before
		if !c.known {
			k = known{}
		}
		got := k.then(c.known, c.after, before.led, 3)
		if got.steady != c.steady || got.clock.IsZero() == c.read || c.read && !got.clock.Equal(c.after.At) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
