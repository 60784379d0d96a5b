package dashboard

import (
	"strings"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

// gauge is one meter of a bucket. Shares are percents of its capacity.
type gauge struct {
	Meter, Rate string
	// Text is what the gauge shows, in words.
	Text string
	// Level is the share that may start now, Debt the share that has to come back first.
	Level, Debt float64
	// Low says that less than a tenth is left.
	Low bool
	// Notes are what is out of the ordinary: promises and waiting tokens.
	Notes []string
}

func newGauge(m state.Meter) gauge {
	_, period, _ := strings.Cut(cli.Rate(m.Rate, m.View.Period), "/")
	g := gauge{
		Meter: m.Meter, Rate: number(m.Rate) + "/" + period,
		Text:  number(m.Level) + " of " + number(m.Capacity) + " left",
		Level: percent(m.Level, m.Capacity), Debt: percent(-m.Level, m.Capacity),
	}
	g.Low = g.Level < 10
	switch m.View.Kind { //nolint:exhaustive // all others fill steadily
	case reservations.KindInFlight:
		g.Rate = "calls in flight"
		g.Text = number(m.Capacity-m.Level) + " of " + number(m.Capacity) + " calls run"
	case reservations.KindWindow:
		g.Rate += " in windows"
	}
	if m.Promised > 0 {
		g.Notes = append(g.Notes, number(m.Promised)+" promised")
	}
	if m.Waiting > 0 {
		g.Notes = append(g.Notes, number(m.Waiting)+" waiting")
	}
	if m.AheadIn > 0 && m.View.Kind != reservations.KindInFlight {
		g.Notes = append(g.Notes, "free for new tasks in "+seconds(m.AheadIn))
	}
	return g
}

// bucketView is a bucket as the pages show it.
type bucketView struct {
	state.Bucket

	Link   string
	Gauges []gauge
	// State is one word, End when the last waiting task is expected to start.
	State, End string
	Why        string // nothing starts, or not all; empty if nothing keeps the tasks
	MoreFlows  int
	Charts     []chart
	Actions    []action // on its own page
}

func newBucketView(b state.Bucket) bucketView {
	v := bucketView{Bucket: b, Link: limitLink(bucket.Name(b.Limit, b.Key)), State: bucketState(b)}
	for _, m := range b.Meters {
		g := newGauge(m)
		if b.Forgotten > 0 && m.View.Kind == reservations.KindInFlight {
			g.Text = "not known yet"
		}
		v.Gauges = append(v.Gauges, g)
	}
	if b.EndIn != nil {
		v.End = "now"
		if *b.EndIn > 0 {
			v.End = "in " + seconds(*b.EndIn)
		}
	}
	if p, is := b.Problem(); is {
		v.Why, _ = explained.Problem(p)
	} else if len(b.Paused) > 0 {
		v.Why, _ = explained.Problem(b.Pause())
	} else if len(b.Unserved) > 0 {
		queue := b.Unserved[0]
		v.Why, _ = explained.Problem(state.Problem{Cause: cause.Unserved(queue, 0), Tasks: b.Queues[queue]})
	}
	v.MoreFlows = max(0, b.FlowCount-len(b.Flows))
	return v
}

func bucketState(b state.Bucket) string {
	switch {
	case b.FailedIn > 0, b.Fault != "":
		return "not answering"
	case b.Refusing == string(reservations.ReasonQuota):
		return "quota exhausted"
	case b.Refusing == string(reservations.ReasonKey):
		return "key not accepted"
	case b.Blocked > 0:
		return "blocked"
	case b.Waiting > 0:
		return "in use, tasks wait"
	case b.Promoted > 0, b.InUse:
		return "in use"
	default:
		return "not in use"
	}
}
