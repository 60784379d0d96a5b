package worker

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
)

func TestApportion(t *testing.T) {
	t.Parallel()
	charges := []reservations.Charge{
		{Limit: "tenant", Tokens: reservations.Tokens{"requests": 1, "pages": 2}},
		{Limit: "provider", Tokens: reservations.Tokens{"requests": 1, "tokens": 50}},
	}
	got := apportion(charges, reservations.Tokens{"requests": 9, "tokens": 900, "pages": 4, "words": 5})
	want := map[int]reservations.Tokens{0: {"pages": 4}, 1: {"requests": 9, "tokens": 900}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestObservationsSent(t *testing.T) {
	t.Parallel()
	var buckets corrections
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		after  time.Duration
		bucket string
		meter  string
		n      float64
		up     bool
		want   bool
	}{
		{0, "a", "tokens", 50, false, true},
		{0, "b", "tokens", 50, false, true},
		{0, "a", "tokens", 50, false, false},
		{900 * time.Millisecond, "a", "tokens", 60, false, false},
		{0, "a", "tokens", 60, true, true},
		{0, "a", "tokens", 59, false, true},
		{0, "a", "requests", 5, false, true},
		{time.Second, "a", "requests", 6, false, true},
	} {
		at = at.Add(c.after)
		seen := reservations.Observation{Remaining: reservations.Tokens{c.meter: c.n}, Up: c.up}
		if got := buckets.due(reservations.BucketName{Limit: c.bucket}, seen, at); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
	a := reservations.BucketName{Limit: "a"}
	buckets.Delete(a)
	if !buckets.due(a, reservations.Observation{Remaining: reservations.Tokens{"requests": 7}}, at) {
		t.Error("expired, and not sent")
	}
}

func TestSightingsAreBounded(t *testing.T) {
	t.Parallel()
	var u usage
	for i := range 3 * sightingsKept {
		u.saw(reservations.Observation{Remaining: reservations.Tokens{strconv.Itoa(i): 1}})
	}
	all := u.seen()
	if _, newest := all[len(all)-1].seen.Remaining[strconv.Itoa(3*sightingsKept-1)]; len(all) != sightingsKept || !newest {
		t.Errorf("%d kept: %+v", len(all), all)
	}
}
