package dispatcher

import (
	"strconv"
	"testing"

	"github.com/headway-go/headway/internal/line/waitlist"
)

// A burst doubles what is read until headsMost, and a rest halves it until headsLeast.
func TestReads(t *testing.T) {
	t.Parallel()
	r := reads{}
	due := waitlist.Due{Bucket: "api", More: true}
	for _, step := range []struct{ promoted, want int }{
		{0, 0},
		{2, 0},
		{4, 8},
		{8, 16},
		{16, 32},
		{32, 64},
		{64, 128},
		{128, 256},
		{256, 256},
		{40, 128},
		{40, 80},
		{0, 40},
		{1, 20},
		{1, 10},
		{1, 5},
		{1, 0},
	} {
		if r.learn(due, step.promoted); r["api"] != step.want {
			t.Errorf("%d promoted: %d heads are read next, want %d", step.promoted, r["api"], step.want)
		}
	}
	r.learn(due, 8)
	if due.More = false; r["api"] != 16 {
		t.Error(r)
	}
	if r.learn(due, 8); len(r) != 0 {
		t.Errorf("a list that was read to its end is still known: %v", r)
	}
}

func TestReadsAreBounded(t *testing.T) {
	t.Parallel()
	r := reads{}
	for i := range 2 * readsMost {
		r.learn(waitlist.Due{Bucket: strconv.Itoa(i), More: true}, headsLeast)
	}
	if len(r) != readsMost {
		t.Errorf("%d waitlists are known, want %d", len(r), readsMost)
	}
}
