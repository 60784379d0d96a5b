package chart

import (
	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// The sizes of text, in points, and the resolution at which a point is a pixel.
const (
	dpi       = 72
	titleSize = 19
	nameSize  = 14
	textSize  = 12
)

// The colours of text, of axes and of grids.
const (
	inkColour, greyColour, faintColour = "24292f", "57606a", "e4e7eb"
)

// colour is the colour of a line by its number. They differ in lightness as well as in hue, so that they remain apart
// in print. They repeat after eight.
func colour(line int) drawing.Color {
	all := [...]string{"0b62c4", "d9541e", "1a8f5a", "8a3ffc", "b8860b", "c2185b", "00838f", "6b7280"}
	return drawing.ColorFromHex(all[line%len(all)])
}

// chart lays a panel out over the ticks of the shared x axis.
func (p Panel) chart(axis []chartdraw.Tick) chartdraw.Chart {
	grey, faint := drawing.ColorFromHex(greyColour), drawing.ColorFromHex(faintColour)
	text := chartdraw.FontStyle{FontSize: textSize, FontColor: grey}
	first, last := axis[0].Value, axis[len(axis)-1].Value
	most, least := 0., 0.
	// The library refuses a chart without a visible series.
	series := []chartdraw.Series{chartdraw.ContinuousSeries{
		Style:   chartdraw.Style{StrokeWidth: 1, StrokeColor: drawing.ColorTransparent},
		XValues: []float64{first, last}, YValues: []float64{0, 0}, YAxis: chartdraw.YAxisSecondary,
	}}
	for i, l := range p.Lines {
		x, y := l.drawn()
		for _, v := range y {
			most, least = max(most, v), min(least, v)
		}
		if len(x) == 0 {
			continue
		}
		series = append(series, chartdraw.ContinuousSeries{
			Style: chartdraw.Style{StrokeWidth: 1.6, StrokeColor: colour(i)}, XValues: x, YValues: y,
			YAxis: chartdraw.YAxisSecondary,
		})
	}
	grid := chartdraw.Style{StrokeColor: faint, StrokeWidth: 1}
	line := chartdraw.Style{StrokeColor: grey, StrokeWidth: 1, FontStyle: text}
	return chartdraw.Chart{
		Width: width, Height: panelHeight, DPI: dpi, Series: series,
		Background: chartdraw.Style{
			FillColor: drawing.ColorWhite, StrokeColor: drawing.ColorWhite,
			Padding: chartdraw.Box{Top: p.legendHeight(), Left: margin, Right: 2 * margin, Bottom: margin, IsSet: true},
		},
		XAxis: chartdraw.XAxis{Style: line, Ticks: axis, GridMajorStyle: grid, GridMinorStyle: grid},
		// The primary axis of the library is the one on the right.
		YAxis: chartdraw.YAxis{Style: chartdraw.Style{Hidden: true}, Range: &chartdraw.ContinuousRange{Max: 1}},
		YAxisSecondary: chartdraw.YAxis{
			Style:          line,
			Ticks:          valueTicks(least, most),
			GridMajorStyle: grid,
			GridMinorStyle: grid,
		},
		Elements: []chartdraw.Renderable{p.header},
	}
}
