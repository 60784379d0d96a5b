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
		return &jsonShow{out: cli.JSON(env.Out), err: env.Err}
	case cli.IsTerminal(env.Err):
		return &barShow{w: env.Err}
	}
	return &lineShow{w: env.Err}
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

type lineShow struct {
	w io.Writer
	rarely
}

func (s *lineShow) progress(f figures) {
	if s.due() {
		s.line(f.text())
	}
}

func (s *lineShow) line(text string) {
	fmt.Fprintf(s.w, "%s %s\n", time.Now().UTC().Format("15:04:05Z"), text)
}

func (s *lineShow) trouble(err error) {
	if s.due() {
		s.line(fmt.Sprintf("can't see the progress, trying on: %v", err))
	}
}

func (s *lineShow) end(f figures) { s.line(f.text()) }
func (s *lineShow) close()        {}

type jsonShow struct {
	out *json.Encoder
	err io.Writer
	rarely
}

func (s *jsonShow) progress(f figures) {
	if s.due() {
		f.Event = "progress"
		_ = s.out.Encode(f) // a closed output needs no line
	}
}

func (s *jsonShow) trouble(err error) {
	if s.due() {
		_ = s.out.Encode(struct {
			Event string `json:"event"`
			Error string `json:"error"`
		}{"trouble", err.Error()})
	}
}

func (s *jsonShow) end(f figures) {
	f.Event = "ended"
	_ = s.out.Encode(f)
}

func (s *jsonShow) close() {}

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
	text := fmt.Sprintf("can't see the progress, trying on: %v", err)
	s.tell(text)
	if s.container == nil && s.due() {
		fmt.Fprintln(s.w, text)
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
