// Package chart is a placeholder until the branch simulate is merged.
package chart

import (
	"io"
	"time"
)

type Panel struct {
	Title, Unit string
	Lines       []Line
}
type Line struct {
	Name string
	X    []time.Duration
	Y    []float64
}

func SVG(w io.Writer, title string, panels ...Panel) error { return nil }
