package batches

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Counts sums up what is stored of a batch.
type Counts struct {
	// Done and Failed are results, good and bad.
	Done, Failed int

	// Retried is the number of requests of which an attempt failed and that were, or will be, tried again.
	Retried int

	// Unanswered is the number of requests without a result of which something is stored all the same, as [Store.Unanswered] lists them.
	Unanswered int

	// Usage is that of all results together.
	Usage Usage

	// First and Last are when the first and the last result were written. Zero where there is none.
	First, Last time.Time
}

type countsDocument struct {
	Block      string    `bson:"_id"`
	Done       int       `bson:"done"`
	Failed     int       `bson:"failed"`
	Retried    int       `bson:"retried"`
	Unanswered int       `bson:"unanswered"`
	Reserved   float64   `bson:"reserved"`
	Used       float64   `bson:"used"`
	Prompt     float64   `bson:"prompt"`
	Completion float64   `bson:"completion"`
	First      time.Time `bson:"first"`
	Last       time.Time `bson:"last"`
}

func (d countsDocument) counts() Counts {
	c := Counts{Done: d.Done, Failed: d.Failed, Retried: d.Retried, Unanswered: d.Unanswered}
	c.Usage = Usage{Reserved: d.Reserved, Used: d.Used, Prompt: d.Prompt, Completion: d.Completion}
	if c.Done+c.Failed > 0 {
		c.First, c.Last = d.First.UTC(), d.Last.UTC()
	}
	return c
}

// plus returns the sum of both.
func (c Counts) plus(o Counts) Counts {
	c.Done += o.Done
	c.Failed += o.Failed
	c.Retried += o.Retried
	c.Unanswered += o.Unanswered
	c.Usage.Reserved += o.Usage.Reserved
	c.Usage.Used += o.Usage.Used
	c.Usage.Prompt += o.Usage.Prompt
	c.Usage.Completion += o.Usage.Completion
	if c.First.IsZero() || !o.First.IsZero() && o.First.Before(c.First) {
		c.First = o.First
	}
	if o.Last.After(c.Last) {
		c.Last = o.Last
	}
	return c
}

// Counts counts the documents themselves, so it is exact whoever was killed when. See [Counter] for who counts again and again.
func (s *Store) Counts(ctx context.Context, batch string) (Counts, error) {
	if err := checkID(batch); err != nil {
		return Counts{}, err
	}
	found, err := s.count(ctx, batch, 1, maxLine, nil)
	if err != nil || len(found) == 0 {
		return Counts{}, err
	}
	return found[0].counts(), nil
}

// count sums up the documents of some lines, in groups that share the value of the expression by.
func (s *Store) count(ctx context.Context, batch string, from, to int, by any) ([]countsDocument, error) {
	when := func(condition bson.D) bson.D {
		return bson.D{{Key: "$sum", Value: bson.D{{Key: "$cond", Value: bson.A{condition, 1, 0}}}}}
	}
	is := func(status string) bson.D { return bson.D{{Key: "$eq", Value: bson.A{"$" + fieldStatus, status}}} }
	missing := func(field string) bson.D {
		return bson.D{{Key: "$eq", Value: bson.A{bson.D{{Key: "$type", Value: "$" + field}}, "missing"}}}
	}
	sum := func(field string) bson.D { return bson.D{{Key: "$sum", Value: "$" + field}} }
	tries := bson.D{{Key: "$size", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$" + fieldTries, bson.A{}}}}}}
	last := bson.D{{Key: "$cond", Value: bson.A{is(statusFailed), 1, 0}}} // the attempt that was not followed by another
	pipeline := bson.A{
		bson.D{{Key: "$match", Value: bson.D{linesOf(batch, from, to)}}},
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: by},
			{Key: "done", Value: when(is(statusDone))},
			{Key: "failed", Value: when(is(statusFailed))},
			{Key: "retried", Value: when(bson.D{{Key: "$gt", Value: bson.A{tries, last}}})},
			{Key: "unanswered", Value: when(bson.D{{Key: "$and", Value: bson.A{missing(fieldStatus), bson.D{{Key: "$not", Value: bson.A{missing(fieldCustom)}}}}}})},
			{Key: "reserved", Value: sum("reserved")},
			{Key: "used", Value: sum("used")},
			{Key: "prompt", Value: sum("prompt")},
			{Key: "completion", Value: sum("completion")},
			{Key: "first", Value: bson.D{{Key: "$min", Value: "$" + fieldAt}}},
			{Key: "last", Value: bson.D{{Key: "$max", Value: "$" + fieldAt}}},
		}}},
	}
	cursor, err := s.results.Aggregate(ctx, pipeline)
	if err != nil {
		return nil, unavailable("count the results of", batch, err)
	}
	var found []countsDocument
	if err := cursor.All(ctx, &found); err != nil {
		return nil, unavailable("count the results of", batch, err)
	}
	return found, nil
}
