package chart

import (
	"math"
	"strconv"
	"time"

	"github.com/go-analyze/charts/chartdraw"
)

const (
	timeTicksMost  = 9
	valueTicksMost = 5
	day            = 24 * time.Hour
)

// timeSteps returns the distances at which a person expects the ticks of times. Beyond them are whole multiples of ten
// days.
func timeSteps() []time.Duration {
	return []time.Duration{
		time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 5 * day, 10 * day,
	}
}

// timeTicks returns the ticks of an x axis from a start to an end, in seconds: at least two, which include both.
func timeTicks(start, end time.Duration) []chartdraw.Tick {
	step, span := time.Duration(0), end/2-start/2 // half of it, which can't overflow
	for _, step = range timeSteps() {
		if span/step <= timeTicksMost/2 {
			break
		}
	}
	step *= 2*span/step/timeTicksMost/2 + 1 //nolint:durationcheck // a quotient of durations is a number
	ticks := []chartdraw.Tick{{Value: start.Seconds(), Label: timeText(start, step)}}
	for at := start - start%step; at < end && end-at > step; {
		if at += step; at > start {
			ticks = append(ticks, chartdraw.Tick{Value: at.Seconds(), Label: timeText(at, step)})
		}
	}
	last := chartdraw.Tick{Value: end.Seconds()}
	if end%step == 0 {
		last.Label = timeText(end, step)
	}
	return append(ticks, last)
}

// timeText writes a time in the unit of a step: "90 s", "6 h", "2 d".
func timeText(at, step time.Duration) string {
	unit, name := time.Millisecond, "ms"
	switch {
	case at == 0:
		return "0"
	case step >= day:
		unit, name = day, "d"
	case step >= time.Hour:
		unit, name = time.Hour, "h"
	case step >= time.Minute:
		unit, name = time.Minute, "min"
	case step >= time.Second:
		unit, name = time.Second, "s"
	}
	return strconv.FormatFloat(float64(at)/float64(unit), 'f', -1, 64) + " " + name
}

// valueTicks returns the ticks of a y axis that includes zero and both values: 1, 2 or 5 times a power of ten apart.
func valueTicks(least, most float64) []chartdraw.Tick {
	span := most - least
	if !(span > 1e-300) || math.IsInf(span, 0) {
		least, most, span = 0, 1, 1
	}
	step := math.Pow(10, math.Floor(math.Log10(span/valueTicksMost)))
	for _, times := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if span/step <= valueTicksMost {
			break
		}
		step *= times
	}
	var ticks []chartdraw.Tick
	for i := math.Floor(least / step); len(ticks) < 4*valueTicksMost; i++ {
		ticks = append(ticks, chartdraw.Tick{Value: i * step, Label: valueText(i*step, step)})
		if i*step >= most {
			break
		}
	}
	return ticks
}

// valueText writes a number of an axis: "0.25", "1 500", "2.5 M".
func valueText(v, step float64) string {
	unit := ""
	for _, u := range []struct {
		of   float64
		name string
	}{{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e4, " k"}} {
		if math.Abs(v) >= u.of {
			if u.of == 1e4 {
				u.of = 1e3
			}
			v, step, unit = v/u.of, step/u.of, u.name
			break
		}
	}
	decimals := 0
	if step < 1 {
		decimals = int(math.Ceil(-math.Log10(step) - 1e-9))
	}
	if v == 0 {
		return "0"
	}
	text := strconv.FormatFloat(v, 'f', min(decimals, 9), 64)
	return text + unit
}
