package dashboard

import (
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/overview"
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

func newGauge(m overview.Meter) gauge {
	g := gauge{
		Meter: m.Meter, Rate: cli.Rate(m.Rate, m.View.Period),
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
	overview.Bucket

	Link   string
	Gauges []gauge
	// State is one word, End when the last waiting task is expected to start.
	State, End string
	MoreFlows  int
	Charts     []chart
}

func newBucketView(b overview.Bucket) bucketView {
	v := bucketView{Bucket: b, Link: limitLink(b), State: bucketState(b)}
	for _, m := range b.Meters {
		v.Gauges = append(v.Gauges, newGauge(m))
	}
	if b.EndIn != nil {
		v.End = "now"
		if *b.EndIn > 0 {
			v.End = "in " + seconds(*b.EndIn)
		}
	}
	v.MoreFlows = max(0, b.FlowCount-len(b.Flows))
	return v
}

func bucketState(b overview.Bucket) string {
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
