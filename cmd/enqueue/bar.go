package main

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/headway-go/headway/internal/cli"
)

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
		s.bar = cli.NewBar(s.container, f.Requests, "ended", mpb.BarExtender(mpb.BarFillerFunc(s.below), false), decor.CountersNoUnit(" %d of %d"))
	}
	s.bar.SetCurrent(int64(f.Done + f.Failed))
}

// below writes the figures. No line is wider than the terminal: it would break there, and the lines could not be redrawn.
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
