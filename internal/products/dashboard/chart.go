package dashboard

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The size of a chart in its own units; it is stretched to the width of its column.
const (
	chartWidth  = 360.0
	chartHeight = 48.0
)

// point is a value at a moment.
type point struct {
	At    time.Time
	Value float64
}

// chart is a line of the last hour, drawn by a template.
type chart struct {
	Title string
	Unit  string
	// Now is the last value, Most the largest one, Top that of the upper edge.
	Now, Most, Top string
	// Line and Area are paths of SVG. Both are empty without points.
	Line, Area string
}

// newChart draws points in the order of time. If two points are further apart than three samples, the line has a gap.
// Top is the value at the upper edge; zero takes the largest value.
func newChart(title, unit string, points []point, now time.Time, top float64) chart {
	c := chart{Title: title, Unit: unit, Now: "–", Most: "–"}
	if len(points) == 0 {
		return c
	}
	most := 0.
	for _, p := range points {
		most = math.Max(most, p.Value)
	}
	c.Now, c.Most = number(points[len(points)-1].Value), number(most)
	if top == 0 {
		top = math.Max(1, most)
	}
	c.Top = number(top)
	x := func(p point) float64 { return chartWidth * (1 - now.Sub(p.At).Seconds()/time.Hour.Seconds()) }
	y := func(p point) float64 { return 1 + (chartHeight-2)*(1-math.Max(0, math.Min(1, p.Value/top))) }
	var corners []string // since the last gap
	for i, p := range points {
		corners = append(corners, fmt.Sprintf("%.1f %.1f", x(p), y(p)))
		if i+1 < len(points) && points[i+1].At.Sub(p.At) <= 3*sampleEvery {
			continue
		}
		first, path := points[i+1-len(corners)], strings.Join(corners, "L")
		c.Line += "M" + corners[0] + "L" + path // one point is a line too, without a length
		c.Area += fmt.Sprintf("M%.1f %.0fL%sL%.1f %.0fZ", x(first), chartHeight, path, x(p), chartHeight)
		corners = nil
	}
	return c
}

// series are the points of one figure of all samples.
func series(samples []sample, value func(sample) (float64, bool)) []point {
	var points []point
	for _, s := range samples {
		if v, ok := value(s); ok {
			points = append(points, point{At: time.Unix(s.At, 0), Value: v})
		}
	}
	return points
}

// perMinute are the rates of ended tasks between samples. Their count restarts at midnight.
func perMinute(samples []sample) []point {
	var points []point
	for i := 1; i < len(samples); i++ {
		before, after := samples[i-1], samples[i]
		passed := float64(after.At - before.At)
		if passed <= 0 || passed > 3*sampleEvery.Seconds() {
			continue
		}
		grown := after.Processed - before.Processed
		if grown < 0 {
			grown = after.Processed
		}
		points = append(points, point{At: time.Unix(after.At, 0), Value: float64(grown) / passed * 60})
	}
	return points
}

// fleetCharts returns the charts of the whole fleet.
func fleetCharts(samples []sample, now time.Time) []chart {
	of := func(value func(sample) int) []point {
		return series(samples, func(s sample) (float64, bool) { return float64(value(s)), true })
	}
	return []chart{
		newChart("Ended", "tasks a minute", perMinute(samples), now, 0),
		newChart("Running", "tasks", of(func(s sample) int { return s.Running }), now, 0),
		newChart("Waiting for limits", "tasks", of(func(s sample) int { return s.Waiting }), now, 0),
		newChart("Ready", "tasks", of(func(s sample) int { return s.Ready }), now, 0),
	}
}

// bucketCharts returns the charts of one bucket.
func bucketCharts(samples []sample, bucket string, now time.Time) []chart {
	of := func(value func(bucketPart) float64) []point {
		return series(samples, func(s sample) (float64, bool) {
			part, ok := s.Buckets[bucket]
			return value(part), ok
		})
	}
	return []chart{
		newChart("Waiting", "tasks", of(func(p bucketPart) float64 { return float64(p.Waiting) }), now, 0),
		newChart("Used of the scarcest meter", "%",
			of(func(p bucketPart) float64 { return 100 * max(0, min(1, p.Used)) }), now, 100),
	}
}
