package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headway-go/headway/internal/cli"
)

// faultsListed is how many faulty lines are named; more are only counted.
const faultsListed = 20

// progress is a bar on a terminal, and nothing elsewhere: the last line tells the result.
type progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
}

func newProgress(w io.Writer, total int) *progress {
	if !cli.IsTerminal(w) {
		return &progress{}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithWidth(barWidth))
	return &progress{container: p, bar: newBar(p, total, "enqueued", nil,
		decor.CountersNoUnit(" %d of %d"), decor.Name(", "), decor.AverageETA(decor.ET_STYLE_GO), decor.Name(" left"))}
}

func (p *progress) set(done int) {
	if p.bar != nil {
		p.bar.SetCurrent(int64(done))
	}
}

func (p *progress) close() {
	if p.bar != nil {
		p.bar.Abort(false) // does nothing to a bar that is complete
		p.container.Wait()
	}
}

// indented lists the faults, one a line.
func indented(r result) string {
	text := "  " + strings.Join(r.Faults, "\n  ")
	if more := r.Faulty - len(r.Faults); more > 0 {
		text += fmt.Sprintf("\n  and %d more", more)
	}
	return text
}
