package batches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/documents"
)

// Counts sums up the stored documents of a batch.
type Counts struct {
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Retried int `json:"retried"` // with a failed attempt that was or will be followed by another one

	// Unanswered is the number of stored requests without a result, for which [Lines.Open] is true.
	Unanswered int `json:"-"`

	Usage // the sum of all results

	// First and Last are the times of the first and the last result. They are zero without a result.
	First time.Time `json:"-"`
	Last  time.Time `json:"-"`
}

// group is the documents that a Counter sums up together.
type group struct {
	Block int
	Model string
	Slot  time.Time // zero outside of the last Window
}

// Plus returns the sum of both.
func (c Counts) Plus(o Counts) Counts {
	c.Done += o.Done
	c.Failed += o.Failed
	c.Retried += o.Retried
	c.Unanswered += o.Unanswered
	c.Reserved += o.Reserved
	c.Used += o.Used
	c.Prompt += o.Prompt
	c.Completion += o.Completion
	if c.First.IsZero() || !o.First.IsZero() && o.First.Before(c.First) {
		c.First = o.First
	}
	if o.Last.After(c.Last) {
		c.Last = o.Last
	}
	return c
}

// Counts reads the documents themselves, so it is exact after any crash. A [Counter] is cheaper for repeated counts.
func (s *Store) Counts(ctx context.Context, batch string) (Counts, error) {
	if err := checkID(batch); err != nil {
		return Counts{}, err
	}
	found, err := s.count(ctx, batch, 1, maxLine, func(*resultHead) group { return group{} })
	return found[group{}], err
}

// count sums up the documents of some lines by groups. A result that can't be read counts if its status can.
func (s *Store) count(
	ctx context.Context, batch string, from, to int, by func(*resultHead) group,
) (map[group]Counts, error) {
	found := map[group]Counts{}
	for h, err := range s.heads(ctx, batch, from, to) {
		if err != nil && (h.Status == "" || !errors.Is(err, ErrMalformed)) {
			return nil, of("count the results of", batch, err)
		}
		g := by(&h)
		found[g] = found[g].Plus(h.counts())
	}
	return found, nil
}

// counts returns what one document counts.
func (h *resultHead) counts() Counts {
	c := Counts{Usage: h.Usage, First: h.Finished, Last: h.Finished}
	last := 0 // no attempt followed the last one of a failed request
	switch h.Status {
	case statusDone:
		c.Done = 1
	case statusFailed:
		c.Failed, last = 1, 1
	default:
		c.Unanswered = 1
	}
	if len(h.Attempts) > last {
		c.Retried = 1
	}
	return c
}

const (
	// Window is the time before a count for which [Progress] has Lately.
	Window = time.Minute
	// slot is the part of that time in which results count together.
	slot = time.Second
	// block is a number of lines. A Counter keeps the sums of a block in which all lines have a result.
	block = 1000
)

// Progress is how far a batch is.
type Progress struct {
	Batch
	Counts

	// Models has the usage of all results, by model.
	Models map[string]Usage `json:"-"`

	// Lately are the counts of the results of the last Window, a second each. The oldest is first, and seconds without
	// results are left out.
	Lately []Counts `json:"-"`
}

// Counter counts one batch repeatedly, e.g. to show its progress. It is as exact as [Store.Counts], and reads only
// blocks of a thousand lines that can still change. It reads each block once more a Window after its end. It is safe
// for concurrent use.
type Counter struct {
	store *Store
	batch string

	counting     chan struct{} // holds one: one count at a time; guards what is below
	begun, ended int           // of Reopen, when full was read
	full         map[int]fullBlock
}

// fullBlock is a block in which all lines have a result, the last one at last.
type fullBlock struct {
	groups map[group]Counts
	last   time.Time
	lately bool // groups has the slots of a Window: it is read again, because one sum takes less memory
}

// Counter returns a Counter of the batch. Each count looks the batch up.
func (s *Store) Counter(batch string) *Counter {
	return &Counter{store: s, batch: batch, full: map[int]fullBlock{}, counting: make(chan struct{}, 1)}
}

// Progress returns the current counts, and the record of the batch. The error matches [ErrUnknownBatch] if there is no
// such batch.
func (c *Counter) Progress(ctx context.Context) (Progress, error) {
	select {
	case c.counting <- struct{}{}:
		defer func() { <-c.counting }()
	case <-ctx.Done():
		return Progress{}, of("read", c.batch, fmt.Errorf("%w: %w", documents.ErrUnavailable, ctx.Err()))
	}
	stored, err := c.store.batches.Get(ctx, []string{c.batch}, false)
	if err != nil {
		return Progress{}, of("read", c.batch, err)
	}
	record, known := stored[c.batch]
	if !known {
		return Progress{}, fmt.Errorf("%w: %q", ErrUnknownBatch, c.batch)
	}
	d, err := decodeBatch(record)
	if err != nil {
		return Progress{}, err
	}
	if d.Begun != c.begun || d.Ended != c.ended {
		clear(c.full) // results were put back
		c.begun, c.ended = d.Begun, d.Ended
	}
	p := Progress{Batch: d.Batch, Models: map[string]Usage{}}
	since := c.store.now().Add(-Window).Truncate(slot)
	slots := map[time.Time]Counts{}
	add := func(groups map[group]Counts) {
		for g, counts := range groups {
			p.Counts = p.Plus(counts)
			p.Models[g.Model] = Counts{Usage: p.Models[g.Model]}.Plus(counts).Usage
			if at := counts.First.Truncate(slot); !at.Before(since) {
				slots[at] = slots[at].Plus(counts)
			}
		}
	}
	maps.DeleteFunc(c.full, func(_ int, b fullBlock) bool { return b.lately && b.last.Before(since) })
	for _, b := range c.full {
		add(b.groups)
	}
	for from, to := range c.open(d.Lines) {
		found, err := c.count(ctx, from, to, d.Lines, since)
		if err != nil {
			return Progress{}, err
		}
		add(found)
	}
	for _, at := range slices.SortedFunc(maps.Keys(slots), time.Time.Compare) {
		p.Lately = append(p.Lately, slots[at])
	}
	return p, nil
}

// open returns the ranges of blocks that are not full, from the first line of each range to its last.
func (c *Counter) open(lines int) map[int]int {
	ranges := map[int]int{}
	from := -1
	last := lines / block
	for b := 0; b <= last; b++ {
		if _, full := c.full[b]; full {
			from = -1
			continue
		}
		if from < 0 {
			from = b
		}
		ranges[from] = b
	}
	return ranges
}

// count sums up the blocks of a range that were not full. It stores the sums of blocks that are full now.
func (c *Counter) count(ctx context.Context, from, to, lines int, since time.Time) (map[group]Counts, error) {
	found, err := c.store.count(ctx, c.batch, max(1, from*block), to*block+block-1, func(h *resultHead) group {
		g := group{Block: h.Line / block, Model: h.Model}
		if !h.Finished.Before(since) {
			g.Slot = h.Finished.Truncate(slot)
		}
		return g
	})
	if err != nil {
		return nil, err
	}
	blocks := map[int]map[group]Counts{}
	for g, counts := range found {
		if blocks[g.Block] == nil {
			blocks[g.Block] = map[group]Counts{}
		}
		blocks[g.Block][g] = counts
	}
	for b, groups := range blocks {
		var sum Counts
		for _, counts := range groups {
			sum = sum.Plus(counts)
		}
		size := min(lines, b*block+block-1) - max(1, b*block) + 1
		if c.begun == c.ended && sum.Done+sum.Failed == size {
			c.full[b] = fullBlock{groups: groups, last: sum.Last, lately: !sum.Last.Before(since)}
		}
	}
	return found, nil
}
