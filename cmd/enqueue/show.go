package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

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
