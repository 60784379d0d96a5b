package dashboard

import (
	"net/url"

	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/state"
)

// problem is a problem of the fleet as the first page shows it.
type problem struct {
	Severity state.Severity
	What     string // a sentence
	Do       string // what ends it
	Link     string // the page that shows more
}

// problems are the problems of the fleet, the worst first.
func problems(f fleet) []problem {
	return shown(state.Problems(f.Snapshot))
}

// shown are problems as the pages show them.
func shown(problems []state.Problem) (all []problem) {
	for _, p := range problems {
		what, remedy := explained.Problem(p)
		all = append(all, problem{Severity: p.Severity, What: what, Do: remedy, Link: problemLink(p)})
	}
	return all
}

// problemLink is the page that shows what a problem is about; empty if there is none.
func problemLink(p state.Problem) string {
	switch {
	case p.Kind == state.KindDead:
		return "dead?since=1h"
	case p.Queue != "":
		return "queue?name=" + url.QueryEscape(p.Queue)
	case p.Bucket != "":
		return limitLink(p.Bucket)
	case p.Limit != "":
		return limitLink(p.Limit)
	case p.Batch != "":
		return "batch?id=" + url.QueryEscape(p.Batch)
	}
	return ""
}

// limitLink is the page of a bucket; all shards of a bucket have one page.
func limitLink(name string) string { return "limit?name=" + url.QueryEscape(name) }

// stuckBatches are batches as far as they may be stuck.
func stuckBatches(rows []batchRow) []state.Batch {
	all := make([]state.Batch, len(rows))
	for i, b := range rows {
		all[i] = b.stuck()
	}
	return all
}

// stuck is a batch as far as it may be stuck.
func (r *batchRow) stuck() state.Batch {
	return state.Batch{
		ID: r.ID, Name: r.Name, Queue: r.Queue, Limits: r.Limits(), Open: r.State == "open", Waiting: r.Waiting,
		Failed: r.Failed, Stopped: r.StoppedBy != "",
	}
}

// hold sets why requests of the batch do not start. The end is then not known, but for a block, which ends.
func (r *batchRow) hold(all []state.Problem) {
	if r.State != "open" || r.Waiting == 0 {
		return
	}
	of := r.stuck().Of(all)
	r.Why = shown(of)
	for _, p := range of {
		if p.Severity == state.Severe {
			r.Left = 0
		}
	}
}
