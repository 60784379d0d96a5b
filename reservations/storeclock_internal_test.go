package reservations

import (
	"testing"
	"time"
)

func TestStoreClockKnowsWhenItWasDecided(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	start := time.Now()
	ahead := 3 * time.Hour // the store's clock
	for _, script := range []struct {
		name    string
		answers [][4]time.Duration // asked, decided, came; the latest moment of the decision
	}{
		{"an answer in no time", [][4]time.Duration{{0, 0, 0, 0}}},
		{"the first is taken to be decided half-way", [][4]time.Duration{{0, 90 * ms, 100 * ms, 50 * ms}}},
		{"held up on the way back", [][4]time.Duration{{0, ms, 2 * ms, ms}, {10 * ms, 11 * ms, 300 * ms, 11 * ms}}},
		{"held up on the way there", [][4]time.Duration{{0, ms, 2 * ms, ms}, {10 * ms, 299 * ms, 300 * ms, 299 * ms}}},
		{"a quicker one knows better", [][4]time.Duration{
			{0, ms, 20 * ms, 10 * ms},
			{30 * ms, 31 * ms, 32 * ms, 31 * ms},
			{40 * ms, 45 * ms, 80 * ms, 45 * ms},
		}},
		{"slow ones know more together", [][4]time.Duration{
			{0, 10 * ms, 100 * ms, 50 * ms},
			{100 * ms, 190 * ms, 200 * ms, 190 * ms},
			{200 * ms, 201 * ms, 300 * ms, 200*ms + 5500*time.Microsecond},
		}},
		{"the clocks drift", [][4]time.Duration{
			{0, ms, 2 * ms, ms},
			{time.Minute, time.Minute + ms, time.Minute + 40*ms, time.Minute + 20*ms},
		}},
	} {
		var c storeClock
		for i, a := range script.answers {
			got, latest := c.moment(start.Add(a[0]), start.Add(a[2]), start.Add(a[1]+ahead).Round(0))
			if latest.Before(start.Add(a[1])) || latest.Before(got) || latest.After(start.Add(a[2])) {
				t.Errorf("%s: answer %d was decided at %v at the latest, and at %v in truth",
					script.name, i, latest.Sub(start), a[1])
			}
			if off := got.Sub(start.Add(a[3])); off < -ms/5 || off > ms/5 {
				t.Errorf("%s: answer %d was decided at %v, want %v", script.name, i, got.Sub(start), a[3])
			}
		}
	}
}

func TestStoreClockThatIsSet(t *testing.T) {
	t.Parallel()
	var c storeClock
	start := time.Now()
	c.moment(start, start.Add(2*time.Millisecond), start.Round(0))
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		asked := start.Add(time.Second)
		came := asked.Add(10 * time.Millisecond)
		if got, _ := c.moment(asked, came, asked.Add(jump).Round(0)); got.Before(asked) || got.After(came) {
			t.Errorf("after a jump by %v it was decided %v after it was asked for", jump, got.Sub(asked))
		}
	}
}
