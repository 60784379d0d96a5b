// Package chart draws lines over time as an SVG document, for reports that a person opens in a browser.
package chart

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// The sizes of a document, in pixels.
const (
	width       = 900
	panelHeight = 270
	titleHeight = 48
	margin      = 14
)

// Panel is one chart: lines over a shared x axis of time.
type Panel struct {
	// Title stands above the chart, and Unit above the y axis. Both may be empty.
	Title, Unit string
	// Lines are drawn in their order. A Panel without a point has an x axis and no line.
	Lines []Line
}

// Line is one line of a Panel.
type Line struct {
	// Name stands in the legend. A line without a name is not listed there.
	Name string
	// X are the times of the points since the start, in ascending order. Y are their values, one for each of X. A point
	// that is not a finite number is left out.
	X []time.Duration
	Y []float64
}

// SVG writes the panels below each other as one SVG document with the title. All panels have the same x axis: from
// zero, or the first point if it is earlier, to the last point of any line. Any text is escaped. The error is one of
// w, or names a line whose X and Y differ in length; then nothing is written.
func SVG(w io.Writer, title string, panels ...Panel) error {
	end, start := time.Duration(0), time.Duration(0)
	for _, p := range panels {
		for _, l := range p.Lines {
			if len(l.X) != len(l.Y) {
				return fmt.Errorf("draw line %q of chart %q: %d values of x and %d of y: must be as many",
					l.Name, p.Title, len(l.X), len(l.Y))
			}
			for _, x := range l.X {
				end, start = max(end, x), min(start, x)
			}
		}
	}
	axis := timeTicks(start, cmp.Or(end, start+time.Second))
	var out bytes.Buffer
	height := titleHeight + len(panels)*panelHeight
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d">`,
		width, height, width, height)
	out.WriteString("<title>")
	_ = xml.EscapeText(&out, []byte(title)) // a buffer takes everything
	out.WriteString("</title>\n")
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	if err := heading(&out, title); err != nil {
		return fmt.Errorf("draw the title of a chart: %w", err)
	}
	for i, p := range panels {
		var drawn bytes.Buffer
		if err := p.chart(axis).Render(chartdraw.SVG, &drawn); err != nil {
			return fmt.Errorf("draw chart %q: %w", p.Title, err)
		}
		embed(&out, drawn.Bytes(), titleHeight+i*panelHeight, panelHeight)
	}
	out.WriteString("</svg>\n")
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write a chart: %w", err)
	}
	return nil
}

// heading draws the title of the document.
func heading(out *bytes.Buffer, title string) error {
	r := chartdraw.SVG(width, titleHeight)
	r.SetDPI(dpi)
	r.SetFont(chartdraw.GetDefaultFont())
	r.SetFontColor(drawing.ColorFromHex(inkColour))
	r.SetFontSize(titleSize)
	r.Text(title, margin, titleHeight-margin)
	var drawn bytes.Buffer
	if err := r.Save(&drawn); err != nil {
		return err
	}
	embed(out, drawn.Bytes(), 0, titleHeight)
	return nil
}

// embed adds a whole SVG document at a height of another one.
func embed(out *bytes.Buffer, document []byte, y, height int) {
	fmt.Fprintf(out, `<svg y="%d" width="%d" height="%d" `, y, width, height)
	out.Write(bytes.TrimPrefix(document, []byte("<svg ")))
	out.WriteByte('\n')
}

// drawn are the points of a line that are finite numbers. The x values are in seconds.
func (l Line) drawn() (x, y []float64) {
	for i, v := range l.Y {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			x, y = append(x, l.X[i].Seconds()), append(y, v)
		}
	}
	return x, y
}
