package cli

import (
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// BarWidth is the width of a bar in columns, if the terminal is wide enough.
const BarWidth = 60

// NewBar returns a bar without colours. Its last cell fills when all is done. It begins at the left even after the
// terminal has shown a ^C. Below may be nil.
func NewBar(in *mpb.Progress, total int, before string, below mpb.BarOption, after ...decor.Decorator) *mpb.Bar {
	return in.New(int64(total), mpb.BarStyle().Lbound("").Rbound("").Filler("█").Tip("░").Padding("░"),
		mpb.PrependDecorators(decor.Name("\r"+before)), mpb.AppendDecorators(after...), below)
}

// Progress is a bar on a terminal. Other outputs show no progress, only the result.
type Progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
}

// NewProgress shows how many of total are done, unless total is 0. what describes the operation, e.g. "enqueued". Close
// it.
func NewProgress(w io.Writer, what string, total int) *Progress {
	if total == 0 || !IsTerminal(w) {
		return &Progress{}
	}
	p := mpb.New(mpb.WithOutput(Control(w)), mpb.WithWidth(BarWidth))
	return &Progress{container: p, bar: NewBar(p, total, what, nil,
		decor.CountersNoUnit(" %d of %d"), decor.Name(", "), decor.AverageETA(decor.ET_STYLE_GO), decor.Name(" left"))}
}

// Set shows how many are done.
func (p *Progress) Set(done int) {
	if p.bar != nil {
		p.bar.SetCurrent(int64(done))
	}
}

// Close ends the bar in its last state.
func (p *Progress) Close() {
	if p.bar != nil {
		p.bar.Abort(false) // does nothing to a bar that is complete
		p.container.Wait()
	}
}
