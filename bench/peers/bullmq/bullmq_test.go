package bullmq_test

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/bullmq"
)

// On a machine without Node, BullMQ takes no part, with that reason.
func TestWithoutNode(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	work := contest.Work{Name: "burst", Limits: []contest.Limit{{Key: "fast", Rate: 100, Burst: 10}}}
	for _, c := range bullmq.All() {
		why := c.(contest.Picky).Refuses(work)
		if !strings.Contains(why, "left out") || !strings.Contains(why, bullmq.ErrNoNode.Error()) {
			t.Errorf("%s refuses because of %q, wanted that Node is missing", c.Name(), why)
		}
		if _, err := c.Producer(t.Context(), contest.Env{}, nil); err == nil {
			t.Errorf("%s has a producer without Node", c.Name())
		}
	}
}

func TestLimiterOfTheWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate              float64
		perSecond, spaced string
	}{
		{100, `{"max":100,"duration":1000}`, `{"max":1,"duration":10}`},
		{4, `{"max":4,"duration":1000}`, `{"max":1,"duration":250}`},
		{0.5, `{"max":1,"duration":2000}`, `{"max":1,"duration":2000}`},
		{2.5, `{"max":2,"duration":800}`, `{"max":1,"duration":400}`},
		{300, `{"max":300,"duration":1000}`, `{"max":1,"duration":4}`}, // whole milliseconds: never above the limit
	} {
		for i, want := range []string{c.perSecond, c.spaced} {
			cmd, err := bullmq.All()[i].(contest.Commander).Command(contest.Env{
				Limits: []contest.Limit{{Key: "a", Rate: c.rate, Burst: 1}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := cmd.Env[len(cmd.Env)-1]; got != "BULLMQ_LIMITER="+want {
				t.Errorf("%v a second: %s, wanted %s", c.rate, got, want)
			}
		}
	}
}

func TestVersionIsOfTheLockFile(t *testing.T) {
	t.Parallel()
	if v := bullmq.Version(); strings.Count(v, ".") != 2 {
		t.Errorf("version %q", v)
	}
}
