package batches

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// block is the number of lines whose sums a Counter keeps once all of them have a result. It is a power of ten, so that the
// lines of a block begin with the same digits.
const block = 1000

// Counter counts one batch again and again, for whoever shows its progress. It is as exact as [Store.Counts], and asks only
// for those thousands of lines in which something can still change. Safe for concurrent use.
type Counter struct {
	store *Store
	batch string

	mu           sync.Mutex // held while the database is asked: one count at a time
	begun, ended int        // of putting back, when full was read
	full         map[int]Counts
}

// Counter returns a Counter of the batch. The batch is looked for with each count.
func (s *Store) Counter(batch string) *Counter {
	return &Counter{store: s, batch: batch, full: map[int]Counts{}}
}

// Counts returns the counts as they are now, and the record of the batch. The error matches [ErrUnknownBatch] where there is none.
func (c *Counter) Counts(ctx context.Context) (Counts, Batch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var d batchDocument
	err := c.store.batches.FindOne(ctx, bson.D{{Key: "_id", Value: c.batch}}).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Counts{}, Batch{}, fmt.Errorf("%w: %q", ErrUnknownBatch, c.batch)
	}
	if err != nil {
		return Counts{}, Batch{}, unavailable("read", c.batch, err)
	}
	if d.Begun != c.begun || d.Ended != c.ended {
		clear(c.full) // results were put back
		c.begun, c.ended = d.Begun, d.Ended
	}
	var total Counts
	for from, to := range c.open(d.Lines) {
		found, err := c.count(ctx, from, to, d.Lines)
		if err != nil {
			return Counts{}, Batch{}, err
		}
		total = total.plus(found)
	}
	for _, counts := range c.full {
		total = total.plus(counts)
	}
	return total, d.batch(), nil
}

// open yields the ranges of blocks that are not full, before the first of them is counted.
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

// count sums up the blocks from to to that are not full, and keeps those that are now.
func (c *Counter) count(ctx context.Context, from, to, lines int) (Counts, error) {
	// The line without its last three digits is the block.
	by := bson.D{{Key: "$substrBytes", Value: bson.A{"$_id", len(c.batch) + 1, lineDigits - 3}}}
	found, err := c.store.count(ctx, c.batch, max(1, from*block), to*block+block-1, by)
	if err != nil {
		return Counts{}, err
	}
	var total Counts
	for _, d := range found {
		b, err := strconv.Atoi(d.Block)
		if err != nil {
			return Counts{}, fmt.Errorf("%w: block %q of batch %q", ErrMalformed, d.Block, c.batch)
		}
		counts := d.counts()
		size := min(lines, b*block+block-1) - max(1, b*block) + 1
		if c.begun == c.ended && counts.Done+counts.Failed == size {
			c.full[b] = counts
		} else {
			total = total.plus(counts)
		}
	}
	return total, nil
}
