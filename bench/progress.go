package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headway-go/headway/bench/results"
	"github.com/headway-go/headway/bench/works"
)

// overhead is the time of a run beyond its work: starting servers and processes, and measuring them while idle.
const overhead = 4 * time.Second

// progress prints a line before and after each run.
type progress struct {
	out   io.Writer
	turns []turn
	next  int
	spent time.Duration // the estimated time of the completed runs
	began time.Time
}

func newProgress(out io.Writer, turns []turn) *progress {
	p := &progress{out: out, turns: turns, began: time.Now()}
	p.say("bench: %d runs, about %s, until %s\n", len(turns), p.left().Round(time.Minute),
		time.Now().Add(p.left()).Format("15:04"))
	return p
}

// left returns the estimated remaining time: the ideal times, scaled by the time of the runs so far.
func (p *progress) left() time.Duration {
	var left time.Duration
	for _, t := range p.turns[p.next:] {
		left += estimate(t)
	}
	if p.spent > time.Minute {
		left = time.Duration(float64(left) * float64(time.Since(p.began)) / float64(p.spent))
	}
	return left
}

// estimate returns the approximate duration of a run. Untuned contestants are usually cut off.
func estimate(t turn) time.Duration {
	if t.contestant == nil {
		return t.work.Ideal
	}
	switch name := t.contestant.Name(); {
	case len(t.work.Limits) > 0 && (name == "asynq-recipe" || name == "asynq-gcra"):
		return t.work.CutAfter() + overhead
	case name != works.Headway && t.work.Others > 0:
		return min(t.work.Others, t.work.CutAfter()) + overhead
	}
	return t.work.Ideal + overhead
}

func (p *progress) begin(t turn) {
	who := "all"
	if t.contestant != nil {
		who = t.contestant.Name()
	}
	p.say("[%d/%d, until %s] %s %s %d: ", p.next+1, len(p.turns), time.Now().Add(p.left()).Format("15:04"), t.work.Name,
		who, t.repetition+1)
	p.next++
	p.spent += estimate(t)
}

func (p *progress) failed(_ turn, err error) { p.say("%v\n", err) }

// end prints the most important figures.
func (p *progress) end(r results.Result) {
	var figures []string
	for _, shown := range []struct{ metric, format string }{
		{results.Share, "limit used %.2f"},
		{results.Worst1s, "worst second %.2f"},
		{results.Finish, "finished in %.1f s"},
		{results.Deliveries, "deliveries %.2f"},
		{results.RedisTrips, "Redis %.2f"},
		{results.MongoTrips, "MongoDB %.2f"},
		{results.Rate, "%.0f/s"},
		{results.Commands, "commands %.1f/s"},
		{results.PerSecond + "one_64", "one bucket, 64 callers: %.0f/s"},
	} {
		if v, ok := r.Metrics[shown.metric]; ok {
			figures = append(figures, fmt.Sprintf(shown.format, v))
		}
	}
	if r.Note != "" {
		figures = append(figures, r.Note)
	}
	if p.turns[p.next-1].contestant == nil {
		p.say("%s: ", r.Contestant)
	}
	p.say("%s\n", strings.Join(figures, ", "))
}

func (p *progress) say(format string, a ...any) {
	_, _ = fmt.Fprintf(p.out, format, a...) // no other output is left for an error
}
