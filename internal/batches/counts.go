package batches

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Counts sums up the stored documents of a batch.
type Counts struct {
	Done    int `bson:"done"    json:"done"`
	Failed  int `bson:"failed"  json:"failed"`
	Retried int `bson:"retried" json:"retried"` // with a failed attempt that was or will be followed by another one

	// Unanswered is the number of stored requests without a result, for which [Lines.Open] is true.
	Unanswered int `bson:"unanswered" json:"-"`

	Usage `bson:",inline"` // the sum of all results

	// First and Last are the times of the first and the last result. They are zero without a result.
	First time.Time `bson:"first" json:"-"`
	Last  time.Time `bson:"last"  json:"-"`
}

// group is the counts of a group of documents.
type group struct {
	By struct {
		Block, Model string
	} `bson:"_id"`
	Counts `bson:",inline"`
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
	found, err := s.count(ctx, batch, 1, maxLine, nil) // one group
	if err != nil || len(found) == 0 {
		return Counts{}, err
	}
	return found[0].Counts, nil
}

// count sums up the documents of some lines, grouped by the value of the expression by.
func (s *Store) count(ctx context.Context, batch string, from, to int, by any) ([]group, error) {
	when := func(condition bson.M) bson.M { return bson.M{"$sum": bson.M{"$cond": bson.A{condition, 1, 0}}} }
	is := func(status string) bson.M { return bson.M{"$eq": bson.A{"$status", status}} }
	missing := func(field string) bson.M { return bson.M{"$eq": bson.A{bson.M{"$type": "$" + field}, "missing"}} }
	tries := bson.M{"$size": bson.M{"$cond": bson.A{bson.M{"$isArray": "$tries"}, "$tries", bson.A{}}}}
	last := bson.M{"$cond": bson.A{is(statusFailed), 1, 0}} // no attempt followed the last one of a failed request
	pipeline := bson.A{bson.M{"$match": bson.D{linesOf(batch, from, to)}}, bson.M{"$group": bson.M{
		"_id":        by,
		"done":       when(is(statusDone)),
		"failed":     when(is(statusFailed)),
		"retried":    when(bson.M{"$gt": bson.A{tries, last}}),
		"unanswered": when(bson.M{"$and": bson.A{missing(fieldStatus), bson.M{"$not": bson.A{missing(fieldCustom)}}}}),
		"reserved":   bson.M{"$sum": "$reserved"},
		"used":       bson.M{"$sum": "$used"},
		"prompt":     bson.M{"$sum": "$prompt"},
		"completion": bson.M{"$sum": "$completion"},
		"first":      bson.M{"$min": "$at"},
		"last":       bson.M{"$max": "$at"},
	}}}
	cursor, err := s.results.Aggregate(ctx, pipeline)
	var found []group
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, unavailable("count the results of", batch, err)
	}
	return found, nil
}

const (
	// Window is the time before a count for which [Progress] has Lately.
	Window = time.Minute
	// slot is the part of that time in which results count together.
	slot = time.Second
	// block is a number of lines. A Counter keeps the sums of a block in which all lines have a result. It is a power of
	// ten, so that the lines of a block begin with the same digits.
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
	groups []group
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
		return Progress{}, unavailable("read", c.batch, ctx.Err())
	}
	var d batchDocument
	err := c.store.batches.FindOne(ctx, bson.M{"_id": c.batch}).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Progress{}, fmt.Errorf("%w: %q", ErrUnknownBatch, c.batch)
	}
	if err != nil {
		return Progress{}, unavailable("read", c.batch, err)
	}
	if d.Begun != c.begun || d.Ended != c.ended {
		clear(c.full) // results were put back
		c.begun, c.ended = d.Begun, d.Ended
	}
	p := Progress{Batch: d.Batch, Models: map[string]Usage{}}
	since := c.store.now().Add(-Window).Truncate(slot)
	slots := map[time.Time]Counts{}
	add := func(groups []group) {
		for _, g := range groups {
			p.Counts = p.Plus(g.Counts)
			p.Models[g.By.Model] = Counts{Usage: p.Models[g.By.Model]}.Plus(g.Counts).Usage
			if at := g.First.Truncate(slot); !at.Before(since) {
				slots[at] = slots[at].Plus(g.Counts)
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
func (c *Counter) count(ctx context.Context, from, to, lines int, since time.Time) ([]group, error) {
	age := bson.M{"$subtract": bson.A{"$at", time.UnixMilli(0)}} // in ms
	found, err := c.store.count(ctx, c.batch, max(1, from*block), to*block+block-1, bson.D{
		// The line without its last three digits is the block.
		{Key: "block", Value: bson.M{"$substrBytes": bson.A{"$_id", len(c.batch) + 1, lineDigits - 3}}},
		{Key: "model", Value: bson.M{"$ifNull": bson.A{"$model", ""}}},
		{Key: "slot", Value: bson.M{"$cond": bson.A{
			bson.M{"$gte": bson.A{"$at", since}},
			bson.M{"$subtract": bson.A{age, bson.M{"$mod": bson.A{age, slot.Milliseconds()}}}},
			0,
		}}},
	})
	if err != nil {
		return nil, err
	}
	blocks := map[int][]group{}
	for _, g := range found {
		b, err := strconv.Atoi(g.By.Block)
		if err != nil {
			return nil, fmt.Errorf("%w: block %q of batch %q", ErrMalformed, g.By.Block, c.batch)
		}
		blocks[b] = append(blocks[b], g)
	}
	for b, groups := range blocks {
		var sum Counts
		for _, g := range groups {
			sum = sum.Plus(g.Counts)
		}
		size := min(lines, b*block+block-1) - max(1, b*block) + 1
		if c.begun == c.ended && sum.Done+sum.Failed == size {
			c.full[b] = fullBlock{groups: groups, last: sum.Last, lately: !sum.Last.Before(since)}
		}
	}
	return found, nil
}
