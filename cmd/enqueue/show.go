package main

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

// lineEvery is how often progress is told where nothing can be redrawn.
const lineEvery = 5 * time.Second

// show tells people, or programs, how a batch goes.
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
		return &jsonShow{out: json.NewEncoder(env.Out), err: env.Err}
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
	fmt.Fprintf(s.w, "%s %s\n", time.Now().Format(time.TimeOnly), text)
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
		_ = s.out.Encode(f) // whoever does not read any more needs no line
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

// barShow is a bar with the figures on the line below it.
type barShow struct {
	w         io.Writer
	container *mpb.Progress
	bar       *mpb.Bar
	text      atomic.Value
}

func (s *barShow) progress(f figures) {
	if s.container == nil {
		s.text.Store("")
		s.container = mpb.New(mpb.WithOutput(s.w), mpb.WithWidth(60))
		s.bar = s.container.New(int64(f.Requests), mpb.BarStyle().Lbound("").Rbound("").Filler("█").Tip("").Padding("░"),
			mpb.PrependDecorators(decor.Name("done ")),
			mpb.AppendDecorators(decor.CountersNoUnit(" %d of %d")),
			mpb.BarExtender(mpb.BarFillerFunc(func(w io.Writer, _ decor.Statistics) error {
				_, err := fmt.Fprintf(w, "%s\n", s.text.Load())
				return err
			}), false))
	}
	s.text.Store(f.text())
	s.bar.SetCurrent(int64(f.Done + f.Failed))
}

func (s *barShow) trouble(err error) {
	s.text.Store(fmt.Sprintf("can't see the progress, trying on: %v", err))
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
	}
}
