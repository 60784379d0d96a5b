package reservations

import "time"

// State is what a task knows of its past with one bucket, in the order of its life. A task asks with the state it was last
// given; one that lost it asks as StateNew, which costs its place and never the limit.
type State string

const (
	// StateNew has never asked, or has forgotten. The zero value means the same.
	StateNew State = "new"
	// StateTicket has a place behind max_reserved and comes back to be given a time.
	StateTicket State = "ticket"
	// StateAgain came back with a ticket and the plan was full once more.
	StateAgain State = "again"
	// StateReserved was given a time in the plan.
	StateReserved State = "reserved"
	// StateLate came at its time and found no room. Late ones start first.
	StateLate State = "late"
	// StateExpress is an urgent task's place under a limit with headroom, in a line of its own. It starts when use has room.
	StateExpress State = "express"
	// StateStarted may run. It ends the task's time with this bucket, but for its settlement.
	StateStarted State = "started"
	// StateRefused was not taken, and holds no place. Outcome.Wait says when it would be.
	StateRefused State = "refused"
	// StateSettled is the outcome of a settlement, a release or a block.
	StateSettled State = "settled"
)

// Ledger is the ledger that a task looks at when it asks with the state it was last given. Stores that compute elsewhere need it.
func (s State) Ledger() int {
	switch s {
	case StateTicket:
		return LedgerAgain
	case StateAgain:
		return LedgerPlan
	case StateReserved:
		return LedgerLate
	case StateLate, StateExpress:
		return LedgerUse
	case StateNew, StateStarted, StateRefused, StateSettled:
	}
	return LedgerLine
}

// FirstCharged is the first ledger that a place of this state is charged to, with all behind it; LedgerCount where the state
// holds no place, or that of LedgerExpress.
func (s State) FirstCharged() int {
	switch s {
	case StateTicket:
		return LedgerLine
	case StateAgain:
		return LedgerAgain
	case StateReserved:
		return LedgerPlan
	case StateLate:
		return LedgerLate
	case StateNew, StateExpress, StateStarted, StateRefused, StateSettled:
	}
	return LedgerCount
}

// Place is what a waiting task keeps and asks with the next time. The zero Place is that of a new task.
type Place struct {
	State State `json:"state"`
	// Due is when to come back (for refused: the earliest time at which it would be accepted), on the clock of the line: the task is woken when the store's clock plus the bucket's shift has reached it.
	Due time.Time `json:"due"`
	// Generation is that of the bucket that gave the place. Due means nothing to another generation.
	Generation int64 `json:"gen,omitempty"`
	// Shard is that of the bucket that gave the place; see Charge.Shard.
	Shard int `json:"shard,omitempty"`
}

// Outcome is a bucket's answer to one request.
type Outcome struct {
	// State is StateStarted, StateRefused, StateSettled, or what the task has to come back with.
	State State
	// Hold is how long a started task waits locally before it runs, at most Hold. Zero for all other states.
	Hold time.Duration
	// Due is when to come back, on the clock of the line (see Place); for a block, when the block in force ends. Zero for started and settled.
	Due time.Time
	// At is the moment of the decision on the store's clock.
	At time.Time
	// Shift moves everybody who waits: a task is woken when now + Shift >= Due. It only counts within one Generation.
	Shift time.Duration
	// Headroom says that the limit has some: its urgent tasks (StateExpress) wait in a line of their own, whose clock is ExpressShift.
	Headroom bool
	// ExpressShift is to urgent tasks that wait what Shift is to the others. Its clock always runs at speed 1.
	ExpressShift time.Duration
	// Speed is how fast the clock of those who wait runs: line seconds in a second. It is 1 but where the limit was changed while
	// tasks wait. Zero means 1. The clock of the line reads now + Shift + (now - At) * (Speed - 1).
	Speed float64
	// Shard is the shard that answered, from 1, where the limit has Shards; see Charge.Shard.
	Shard int
	// Generation tells buckets of the same name apart that were created one after the other. It grows.
	Generation int64
	// Version grows with each change of the bucket. An answer with a lower version is older and must not overwrite a newer one.
	Version int64
}

// Started says whether the task may run, after Hold.
func (o Outcome) Started() bool { return o.State == StateStarted }

// Place is what the task has to keep when it was not started.
func (o Outcome) Place() Place {
	return Place{State: o.State, Due: o.Due, Generation: o.Generation, Shard: o.Shard}
}

// Wait is the time from the decision until the task should be back, never negative. Started tasks wait Hold instead.
func (o Outcome) Wait() time.Duration {
	if o.Due.IsZero() {
		return 0
	}
	if o.State == StateExpress {
		return max(0, o.Due.Sub(o.At)-o.ExpressShift)
	}
	wait := max(0, o.Due.Sub(o.At)-o.Shift)
	if o.Speed > 0 && o.Speed != 1 {
		return seconds(wait.Seconds() / o.Speed)
	}
	return wait
}
