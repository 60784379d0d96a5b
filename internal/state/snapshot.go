package state

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/dispatcher"
)

// Snapshot is one look at the fleet. If a service does not answer, its part is empty and Faults says so.
type Snapshot struct {
	At      time.Time
	Limits  []Limit
	Queues  []*asynq.QueueInfo
	Workers []*asynq.ServerInfo
	Members []register.Member // the workers, with what each can serve
	Lacked  []register.Lack   // what workers lack that have returned tasks
	Duty    dispatcher.Duty
	// Dead is how many dead tasks there are, DeadLately how many of them died in the last hour.
	Dead, DeadLately int
	Batches          []Batch
	Faults           []Fault
}

// Batch is a batch as far as it may be stuck.
type Batch struct {
	ID, Name string
	Queue    string
	Limits   []string // the names of its buckets
	Open     bool
	Waiting  int
	Failed   int
	Stopped  bool // at the failures that it may have
}

// Part is a part of a snapshot that is read by itself.
type Part string

// The parts of a snapshot.
const (
	PartLimits     Part = "limits"
	PartQueues     Part = "queues"
	PartWorkers    Part = "workers"
	PartDispatcher Part = "the dispatcher"
	PartDead       Part = "dead tasks"
	PartBatches    Part = "batches"
	PartHistory    Part = "the last hour"
)

// Fault is a part that could not be read.
type Fault struct {
	Part Part
	Err  error
}

// Read reads one part. A fault of it leaves the others. Copies of a snapshot do not share faults that are added later.
func (s *Snapshot) Read(part Part, read func() error) {
	if err := read(); err != nil {
		s.Faults = append(slices.Clip(s.Faults), Fault{Part: part, Err: err})
	}
}

// Unread is the fault of a part. It is nil if the part could be read.
func (s *Snapshot) Unread(part Part) error {
	for _, fault := range s.Faults {
		if fault.Part == part {
			return fault.Err
		}
	}
	return nil
}

// Fault joins all faults. It is nil if all could be read.
func (s *Snapshot) Fault() error {
	var all []error
	for _, fault := range s.Faults {
		all = append(all, fault.Err)
	}
	return errors.Join(all...)
}

// Buckets are the buckets of all limits, the longest waitlists first.
func (s *Snapshot) Buckets() []Bucket {
	var all []Bucket
	for _, limit := range s.Limits {
		all = append(all, limit.Buckets...)
	}
	slices.SortStableFunc(all, func(a, b Bucket) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return all
}

// Takers is how many workers take from a queue, and how many take from other queues only.
func (s *Snapshot) Takers(queue string) (takers, others int) {
	for _, w := range s.Workers {
		switch {
		case Stopping(w):
		case w.Queues[queue] > 0:
			takers++
		default:
			others++
		}
	}
	return takers, others
}

// Stopping says whether a worker takes no more tasks.
func Stopping(w *asynq.ServerInfo) bool { return w.Status != "active" }
