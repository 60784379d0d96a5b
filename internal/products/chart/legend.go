package chart

import (
	"unicode/utf8"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"
)

// The parts of a header, in pixels.
const (
	headerTop   = 20
	unitBelow   = 10 // the unit ends above the canvas by this
	rowHeight   = 18
	sampleWidth = 22
	sampleGap   = 6
	entryGap    = 20
	// letterWidth is about the width of a letter of a legend. The rows of a legend are counted before a font is known.
	letterWidth = 6.6
)

// entry is one name of a legend.
type entry struct {
	name     string
	line     int // its number, which decides its colour
	x, width int
	row      int
}

// legend places the names of a panel's lines in rows, below its title.
func (p Panel) legend() (entries []entry, rows int) {
	x := margin
	for i, l := range p.Lines {
		if l.Name == "" {
			continue
		}
		w := sampleWidth + sampleGap + int(letterWidth*float64(utf8.RuneCountInString(l.Name)))
		if x > margin && x+w > width-margin {
			x, rows = margin, rows+1
		}
		entries = append(entries, entry{name: l.Name, line: i, x: x, width: w, row: rows})
		x += w + entryGap
	}
	if len(entries) > 0 {
		rows++
	}
	return entries, rows
}

// legendHeight is where the canvas of a panel starts.
func (p Panel) legendHeight() int {
	_, rows := p.legend()
	return min(headerTop+rows*rowHeight+rowHeight+unitBelow, panelHeight/2)
}

// header draws the title of a panel, its legend, and the unit of the y axis.
func (p Panel) header(r chartdraw.Renderer, canvas chartdraw.Box, defaults chartdraw.Style) {
	write := func(size float64, text string, x, y int) {
		r.SetFont(defaults.GetFont())
		r.SetFontColor(drawing.ColorFromHex(greyColour))
		if size == nameSize {
			r.SetFontColor(drawing.ColorFromHex(inkColour))
		}
		r.SetFontSize(size)
		r.Text(text, x, y)
	}
	write(nameSize, p.Title, margin, headerTop-4)
	write(textSize, p.Unit, margin, canvas.Top-unitBelow)
	entries, _ := p.legend()
	for _, e := range entries {
		y := headerTop + (e.row+1)*rowHeight - 4
		if y > canvas.Top-unitBelow-textSize {
			return // a legend never covers the lines
		}
		r.SetStrokeColor(colour(e.line))
		r.SetStrokeWidth(3)
		r.MoveTo(e.x, y-4)
		r.LineTo(e.x+sampleWidth, y-4)
		r.Stroke()
		write(textSize, e.name, e.x+sampleWidth+sampleGap, y)
	}
}
