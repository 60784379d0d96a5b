package scheduler

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// running is an answer whose line's clock runs at a speed, from the moment that the bucket gave it.
func running(at time.Time, version int64, shift time.Duration, speed float64) movement {
	return movementOf("openai", reservations.Outcome{At: at, Generation: 7, Version: version, Shift: shift, Speed: speed}, time.Now())
}

func TestASlowClockMakesTheLineLater(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		at := bucketNow().Add(-10 * time.Minute) // the limit was halved ten minutes ago: the clock has lost five of them
		mustRecord(t, l, running(at, 1, 0, 0.5).aged(10*time.Minute), dueIn("b", 0), dueIn("c", time.Hour), dueIn("a", -5*time.Minute-time.Second))
		same(t, "at half speed", []string{"a"}, mustPop(t, l))
		mustMove(t, l, answer(2, 0))
		same(t, "at full speed", []string{"b"}, mustPop(t, l))
	})
}

// A raised limit is used at once: those who wait are brought forward, and whoever watches is told of the earlier moment.
func TestAFastClockBringsTheLineForward(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		mustRecord(t, l, answer(1, 0), dueIn("a", time.Hour), dueIn("b", 2*time.Hour))
		first, earlier := mustMove(t, l, running(bucketNow(), 2, 0, 60))
		if !earlier || first < 50*time.Second || first > 61*time.Second {
			t.Errorf("first = %v, %v, want a minute, true", first, earlier)
		}
		same(t, "at once", []string(nil), mustPop(t, l))
		mustMove(t, l, running(bucketNow().Add(-90*time.Second), 3, 0, 60).aged(90*time.Second))
		same(t, "after a minute and a half", []string{"a"}, mustPop(t, l))
	})
}

// A limit that was all but closed and is opened again: nothing on the way overflows.
func TestAClockThatAlmostStandsStill(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		mustRecord(t, l, running(bucketNow(), 1, 0, 1e-6), dueIn("a", 300*24*time.Hour))
		found, err := l.describe(t.Context(), []string{lineName("openai", 7)})
		if err != nil || found[0].Waiting != 1 || found[0].First.Year() < 2200 {
			t.Fatalf("%+v, %v", found, err)
		}
		if at, err := l.standing(t.Context(), dueIn("a", 0).task); err != nil || !at.due.Equal(found[0].First) {
			t.Errorf("%+v, %v", at, err)
		}
		mustMove(t, l, running(bucketNow(), 2, 300*24*time.Hour, 1))
		same(t, "again", []string{"a"}, mustPop(t, l))
	})
}

// aged makes the answer one that came so long ago.
func (m movement) aged(d time.Duration) movement {
	m.heard = m.heard.Add(-d)
	return m
}

func TestAnOlderAnswerDoesNotChangeTheSpeed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, l lines) {
		t.Helper()
		long := bucketNow().Add(-time.Minute)
		mustRecord(t, l, running(long, 5, 0, 100).aged(time.Minute), dueIn("a", time.Hour))
		mustMove(t, l, running(bucketNow(), 4, 0, 0.01))
		mustRecord(t, l, answer(3, 0), dueIn("b", time.Hour))
		same(t, "due", []string{"a", "b"}, mustPop(t, l))
	})
}

// Every moment at which the index has the line looked at is one at which its first task is due: nobody looks in vain.
func TestTheIndexIsRightAtAnySpeed(t *testing.T) {
	t.Parallel()
	for _, speed := range []float64{1e-3, 0.1, 1. / 3, 0.999999, 1, 1.000001, math.Pi, 7, 1000} {
		l, server := onMini(t)
		start := time.Now()
		server.SetTime(start)
		at := start.Add(bucketAhead)
		m := running(at, 1, 17*time.Second+123456*time.Microsecond, speed)
		mustRecord(t, l, m, dueIn("a", time.Minute+654321*time.Microsecond))
		score, err := server.ZScore(root+"index", "openai@7")
		if err != nil {
			t.Fatal(err)
		}
		moment := time.UnixMicro(int64(score))
		line := moment.Sub(start).Seconds()*speed + 17.123456
		if math.Abs(line-60.654321) > 2*max(1, speed)*0.1 { // what the test itself takes
			t.Errorf("speed %v: due after %v, where the clock has moved by %v s", speed, moment.Sub(start), line)
		}
		server.SetTime(moment.Add(-time.Microsecond))
		same(t, "a microsecond before", []string(nil), mustPop(t, l))
		server.SetTime(moment)
		same(t, "then", []string{"a"}, mustPop(t, l))
	}
}

// The clock of a line that was written down before lines had a speed runs at 1, and so does one of an outcome without.
func TestNoSpeedIsOne(t *testing.T) {
	t.Parallel()
	l, server := onMini(t)
	start := time.Now()
	server.SetTime(start)
	mustRecord(t, l, answer(1, 0), dueIn("a", time.Hour))
	for _, field := range []string{"at", "speed"} {
		server.HDel(root+"clock:openai@7", field)
	}
	server.SetTime(start.Add(time.Hour - time.Second))
	same(t, "a second before", []string(nil), mustPop(t, l))
	server.SetTime(start.Add(time.Hour + time.Second))
	same(t, "a second after", []string{"a"}, mustPop(t, l))
	for _, speed := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if got := running(start, 1, 0, speed).speed; got != 1 {
			t.Errorf("speed %s is taken as %v", strconv.FormatFloat(speed, 'g', -1, 64), got)
		}
	}
}
