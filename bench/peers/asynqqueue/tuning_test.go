package asynqqueue_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
)

func TestCheckInterval(t *testing.T) {
	t.Parallel()
	hundred, four := contest.Limit{Key: "a", Rate: 100, Burst: 10}, contest.Limit{Key: "b", Rate: 4, Burst: 4}
	for _, c := range []struct {
		name   string
		limits []contest.Limit
		want   time.Duration
	}{
		{"none", nil, 50 * time.Millisecond},
		{"100/s", []contest.Limit{hundred}, 50 * time.Millisecond},
		{"4/s", []contest.Limit{four}, 500 * time.Millisecond},
		{"both", []contest.Limit{four, hundred}, 50 * time.Millisecond},
		{"fills in 10 ms", []contest.Limit{{Rate: 1000, Burst: 10}}, 50 * time.Millisecond},
		{"fills in a minute", []contest.Limit{{Rate: 1, Burst: 60}}, time.Second},
	} {
		if got := asynqqueue.CheckInterval(contest.Env{Limits: c.limits}, 2); got != c.want {
			t.Errorf("%s: %v, wanted %v", c.name, got, c.want)
		}
	}
}

func TestLimitersShareRateAndBurst(t *testing.T) {
	t.Parallel()
	env := contest.Env{Limits: []contest.Limit{{Key: "a", Rate: 5, Burst: 4}, {Key: "b", Rate: 1, Burst: 1}}}
	halves := asynqqueue.Limiters(env, 2)
	if l := halves["a"]; l.Limit() != 2.5 || l.Burst() != 2 {
		t.Errorf("half of 5/s, burst 4: %v, %d", l.Limit(), l.Burst())
	}
	if l := halves["b"]; l.Limit() != 0.5 || l.Burst() != 1 {
		t.Errorf("half of 1/s, burst 1: %v, %d", l.Limit(), l.Burst())
	}
	if l := asynqqueue.Limiters(env, 1)["a"]; l.Limit() != 5 || l.Burst() != 4 {
		t.Errorf("all of 5/s, burst 4: %v, %d", l.Limit(), l.Burst())
	}
}
