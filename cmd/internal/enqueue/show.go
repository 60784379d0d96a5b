package enqueue

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headway-go/headway/internal/setup/cli"
)

// lineEvery is the time between two lines of progress where nothing can be redrawn.
const lineEvery = 5 * time.Second

// show prints the progress of a batch: a bar on a terminal with the figures below it, lines elsewhere, JSON where it
// was asked for.
type show struct {
	env    cli.Environment
	asJSON bool
	next   time.Time // of the next line

	container *mpb.Progress // nil without a bar
	bar       *mpb.Bar
	parts     atomic.Pointer[[]string] // below the bar
}

func (s *show) onTerminal() bool { return !s.asJSON && cli.IsTerminal(s.env.Err) }

func (s *show) progress(f figures) {
	if !s.onTerminal() {
		s.line("progress", f, nil)
		return
	}
	parts := f.parts()
	s.parts.Store(&parts)
	if s.container == nil {
		s.container = mpb.New(mpb.WithOutput(cli.Control(s.env.Err)), mpb.WithWidth(cli.BarWidth))
		s.bar = cli.NewBar(s.container, f.Requests, "ended", mpb.BarExtender(mpb.BarFillerFunc(s.below), false),
			decor.CountersNoUnit(" %d of %d"))
	}
	s.bar.SetCurrent(int64(f.Done + f.Failed))
}

// below writes the figures. No line is wider than the terminal: it would break there, and the lines could not be
// redrawn.
func (s *show) below(w io.Writer, at decor.Statistics) error {
	for _, line := range cli.Arrange(*s.parts.Load(), max(1, at.AvailableWidth-1)) {
		if _, err := fmt.Fprintln(w, cli.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) trouble(err error) {
	if s.container == nil {
		s.line("trouble", figures{}, err)
		return
	}
	s.parts.Store(&[]string{troubleText(err)})
}

func (s *show) end(f figures) {
	s.close()
	s.next = time.Time{}
	s.line("ended", f, nil)
}

// line writes the figures at an event, or an error, unless it is too soon after the last line.
func (s *show) line(event string, f figures, err error) {
	now := time.Now()
	if now.Before(s.next) {
		return
	}
	s.next = now.Add(lineEvery)
	var object any
	var text string
	if f.Event = event; err == nil {
		object, text = f, f.text()
	} else {
		object, text = map[string]string{"event": event, "error": err.Error()}, troubleText(err)
	}
	switch {
	case s.asJSON:
		_ = cli.JSON(s.env.Out).Encode(object) // a closed output needs no line
	case s.onTerminal():
		fmt.Fprintln(s.env.Err, text)
	default:
		fmt.Fprintf(s.env.Err, "%s %s\n", now.UTC().Format("15:04:05Z"), text)
	}
}

func troubleText(err error) string { return fmt.Sprintf("can't see the progress, trying on: %v", err) }

func (s *show) close() {
	if s.container != nil {
		s.bar.Abort(true)
		s.container.Wait()
		s.container = nil
		fmt.Fprint(cli.Control(s.env.Err), "\r\x1b[K") // what is left of it behind a ^C
	}
}
