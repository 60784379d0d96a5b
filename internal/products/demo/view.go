package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headway-go/headway/internal/setup/cli"
)

// refresh is how often the live view changes. plainEvery is how often a line is written without a terminal.
const (
	refresh    = 100 * time.Millisecond
	plainEvery = 5 * time.Second
)

// A view of bars needs a terminal of this size. textWidth is the width of the text behind each bar, so that all bars
// are equally wide.
const (
	columnsMin = 50
	rowsMin    = 9
	textWidth  = 21
)

// moment is the snapshot that the view shows.
type moment struct {
	counts
	total int
	level map[string]float64 // by meter, as a share of the capacity; a debt is negative
}

func (m moment) done() int    { return m.succeeded + m.archived }
func (m moment) waiting() int { return m.total - m.done() - m.running }

// show draws the fleet until stop is closed: bars on a terminal, a line every few seconds elsewhere.
func show(w io.Writer, look func() moment, stop <-chan struct{}) {
	if columns, rows := cli.Size(w); columns >= columnsMin && rows >= rowsMin {
		bars(cli.Control(w), look, stop)
		return
	}
	lines(w, look, stop)
}

func lines(w io.Writer, look func() moment, stop <-chan struct{}) {
	tick := time.NewTicker(plainEvery)
	defer tick.Stop()
	for {
		m := look()
		fmt.Fprintf(w, "done %d/%d, running %d, waiting %d, bucket: requests %.0f %%, tokens %.0f %%\n",
			m.done(), m.total, m.running, m.waiting(), 100*max(0, m.level["requests"]), 100*max(0, m.level["tokens"]))
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

func bars(w io.Writer, look func() moment, stop <-chan struct{}) {
	first := look()
	p := mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithRefreshRate(refresh), mpb.WithWidth(cli.BarWidth))
	bar := func(total int, name string, text func(decor.Statistics) string) *mpb.Bar {
		return cli.NewBar(p, total, fmt.Sprintf("%-9s", name), nil,
			decor.Any(text, decor.WC{W: textWidth, C: decor.DindentRight}))
	}
	of := func(s decor.Statistics) string { return fmt.Sprintf(" %d", s.Current) }
	percent := func(s decor.Statistics) string { return fmt.Sprintf(" %d %% of the bucket", s.Current) }
	done := bar(first.total, "done", func(s decor.Statistics) string {
		return fmt.Sprintf(" %d of %d", s.Current, s.Total)
	})
	running := bar(first.total, "running", of)
	waiting := bar(first.total, "waiting", of)
	levels := map[string]*mpb.Bar{"requests": bar(100, "requests", percent), "tokens": bar(100, "tokens", percent)}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for going := true; going; {
		m := look()
		done.SetCurrent(int64(min(m.done(), m.total-1)))
		running.SetCurrent(int64(m.running))
		waiting.SetCurrent(int64(min(m.waiting(), m.total-1)))
		for meter, b := range levels {
			b.SetCurrent(int64(min(99, max(0, 100*m.level[meter]))))
		}
		select {
		case <-tick.C:
		case <-stop:
			going = false
		}
	}
	for _, b := range []*mpb.Bar{done, running, waiting, levels["requests"], levels["tokens"]} {
		b.Abort(true)
	}
	p.Wait()
}
