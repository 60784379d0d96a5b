package report

import (
	"errors"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width  = 8 * vg.Inch
	height = 3.5 * vg.Inch
	margin = 8 // points
)

// newPlot returns an empty plot with a sans-serif font.
func newPlot(title string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Title.Padding = title, vg.Points(margin)
	p.Legend.Top = true
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.Legend.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		style.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: style.Font.Size}
	}
	return p
}

// save writes the plot as SVG, on white and with a margin.
func save(p *plot.Plot, path string) error {
	svg := vgsvg.New(width, height)
	canvas := draw.New(svg)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Path())
	p.Draw(draw.Crop(canvas, vg.Points(margin), -vg.Points(2*margin), vg.Points(margin), -vg.Points(margin)))
	file, err := os.Create(path) //nolint:gosec // a fixed name in the user's folder
	if err != nil {
		return err
	}
	_, err = svg.WriteTo(file)
	return errors.Join(err, file.Close())
}
