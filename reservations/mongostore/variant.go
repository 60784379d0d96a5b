package mongostore

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// variant is what the pipeline of a call needs. All else is left out: a call is mostly the parsing of the pipeline.
type variant struct {
	windows                           bool // a meter is a window
	bounded                           bool // the limit has a MaxWait
	headroom                          bool // urgent tasks are told from ordinary ones
	urgent                            bool // a request is urgent; only with headroom
	changed                           bool // the stored bucket has another shape
	ids                               bool // a settlement has an ID
	syncs                             bool // a request is a sync; then settles too
	leads                             bool // a reserved task is on its way for a time
	misses                            bool // a reserved task may find what it was promised lost, and sets the line back; never with headroom
	begins, blocks, settles, releases bool
	loses, advances                   bool
}

// variantOf is what these requests need where the stored bucket has the shape of limit.
func variantOf(limit reservations.Limit, requests []reservations.Request) variant {
	v := variant{bounded: limit.MaxWait > 0, headroom: limit.HasHeadroom()}
	for _, m := range limit.Meters {
		v.windows = v.windows || m.Kind == reservations.KindWindow
	}
	for _, r := range requests {
		v.urgent = v.urgent || v.headroom && r.Urgent
		switch r.Op {
		case reservations.OpBlock:
			v.blocks = true
		case reservations.OpRelease, reservations.OpYield:
			v.releases = true
		case reservations.OpLose:
			v.loses = true
		case reservations.OpAdvance:
			v.advances = true
		case reservations.OpSync:
			v.syncs, v.settles = true, true
		case reservations.OpSettle:
			v.settles = true
			v.ids = v.ids || r.ID != 0
		case reservations.OpBegin, reservations.OpCheck:
			v.begins = true
			v.misses = v.misses || !v.headroom && r.State.Ledger() == reservations.LedgerLate
		case reservations.OpReserve:
			v.begins = true
			v.leads = v.leads || r.For > 0
		case reservations.OpTake:
			v.begins = true
		default:
			v.begins = true
		}
	}
	return v
}

// programs are the encoded programs by what they need, each made when it is first used. Safe for concurrent use.
type programs struct {
	mu   sync.Mutex // guards made
	made map[variant]bson.A
}

func (p *programs) of(v variant) bson.A {
	if v.changed && !v.headroom { // the old meters may have been windows; no meter of a limit with headroom is one
		v.windows = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made, ok := p.made[v]
	if !ok {
		made = encoded(v.program())
		if p.made == nil {
			p.made = map[variant]bson.A{}
		}
		p.made[v] = made
	}
	return made
}

// encoded is the stages as bytes, so that a call need not encode them again. They are all ours: one that does not encode is a programmer's mistake.
func encoded(stages bson.A) bson.A {
	for i, stage := range stages {
		raw, err := bson.Marshal(stage)
		if err != nil {
			panic("mongostore: " + err.Error())
		}
		stages[i] = bson.Raw(raw)
	}
	return stages
}
