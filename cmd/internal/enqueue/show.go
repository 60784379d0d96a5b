package enqueue

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headway-go/headway/internal/cli"
)

// lineEvery is the time between two lines of progress where nothing can be redrawn.
const lineEvery = 5 * time.Second

// show prints the progress of a batch, for people or for programs.
type show interface {
	progress(f figures)
	trouble(err error)
	end(f figures)
	close()
}

// newShow is a bar on a terminal, lines elsewhere, JSON where it was asked for.
func newShow(env cli.Environment, asJSON bool) show {
	switch {
	case asJSON:
		return &lineShow{write: jsonLines(cli.JSON(env.Out))}
	case cli.IsTerminal(env.Err):
		return &barShow{w: env.Err}
	}
	return &lineShow{write: textLines(env.Err)}
}

// rarely says whether it is time for the next line.
type rarely struct{ next time.Time }

func (r *rarely) due() bool {
	now := time.Now()
	if now.Before(r.next) {
		return false
	}
	r.next = now.Add(lineEvery)
	return true
}

// lineShow writes a line now and then: the figures at an event, or an error.
type lineShow struct {
	write func(event string, f figures, err error)
	rarely
}

func (s *lineShow) progress(f figures) {
	if s.due() {
		s.write("progress", f, nil)
	}
}

func (s *lineShow) trouble(err error) {
	if s.due() {
		s.write("trouble", figures{}, err)
	}
}

func (s *lineShow) end(f figures) { s.write("ended", f, nil) }
func (s *lineShow) close()        {}

func textLines(w io.Writer) func(string, figures, error) {
	return func(_ string, f figures, err error) {
		text := troubleText(err)
		if err == nil {
			text = f.text()
		}
		fmt.Fprintf(w, "%s %s\n", time.Now().UTC().Format("15:04:05Z"), text)
	}
}

func jsonLines(out *json.Encoder) func(string, figures, error) {
	return func(event string, f figures, err error) {
		if f.Event = event; err == nil {
			_ = out.Encode(f) // a closed output needs no line
			return
		}
		_ = out.Encode(map[string]string{"event": event, "error": err.Error()}) // as above
	}
}

func troubleText(err error) string { return fmt.Sprintf("can't see the progress, trying on: %v", err) }

// barShow is a bar with the figures on the lines below it.
type barShow struct {
	w         io.Writer
	container *mpb.Progress
	bar       *mpb.Bar
	parts     atomic.Pointer[[]string]
	rarely
}

func (s *barShow) progress(f figures) {
	s.tell(f.parts()...)
	if s.container == nil {
		s.container = mpb.New(mpb.WithOutput(cli.Control(s.w)), mpb.WithWidth(cli.BarWidth))
		s.bar = cli.NewBar(s.container, f.Requests, "ended", mpb.BarExtender(mpb.BarFillerFunc(s.below), false),
			decor.CountersNoUnit(" %d of %d"))
	}
	s.bar.SetCurrent(int64(f.Done + f.Failed))
}

// below writes the figures. No line is wider than the terminal: it would break there, and the lines could not be
// redrawn.
func (s *barShow) below(w io.Writer, at decor.Statistics) error {
	for _, line := range cli.Arrange(*s.parts.Load(), max(1, at.AvailableWidth-1)) {
		if _, err := fmt.Fprintln(w, cli.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

func (s *barShow) tell(parts ...string) { s.parts.Store(&parts) }

func (s *barShow) trouble(err error) {
	s.tell(troubleText(err))
	if s.container == nil && s.due() {
		fmt.Fprintln(s.w, troubleText(err))
	}
}

func (s *barShow) end(f figures) {
	s.close()
	fmt.Fprintln(s.w, f.text())
}

func (s *barShow) close() {
	if s.container != nil {
		s.bar.Abort(true)
		s.container.Wait()
		s.container = nil
		fmt.Fprint(cli.Control(s.w), "\r\x1b[K") // what is left of it behind a ^C
	}
}
