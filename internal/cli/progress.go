package cli

import (
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// BarWidth is how wide a bar is, in columns, where the terminal is wide enough.
const BarWidth = 60

// NewBar is a bar of one colour, so that it needs none. It begins at the left also where the terminal has just shown a
// ^C. Below may be nil.
func NewBar(in *mpb.Progress, total int, before string, below mpb.BarOption, after ...decor.Decorator) *mpb.Bar {
	return in.New(int64(total), mpb.BarStyle().Lbound("").Rbound("").Filler("█").Tip("").Padding("░"),
		mpb.PrependDecorators(decor.Name("\r"+before)), mpb.AppendDecorators(after...), below)
}

// Progress is a bar on a terminal, and nothing elsewhere: there the last line shows the result.
type Progress struct {
	container *mpb.Progress
	bar       *mpb.Bar
}

// NewProgress shows how many of total are done; what says what is done to them, e.g. "enqueued". Close it.
func NewProgress(w io.Writer, what string, total int) *Progress {
	if !IsTerminal(w) {
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

// Close leaves the bar as it is.
func (p *Progress) Close() {
	if p.bar != nil {
		p.bar.Abort(false) // does nothing to a bar that is complete
		p.container.Wait()
	}
}
