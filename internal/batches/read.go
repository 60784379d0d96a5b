package batches

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// page is the number of results that are read at once.
const page = 200

// Find returns what is stored of a request; ok says that it has a result. Without one, the Result has the attempts so
// far.
func (s *Store) Find(ctx context.Context, batch string, line int) (r Result, ok bool, err error) {
	if err = checkLine(batch, line); err != nil {
		return Result{}, false, err
	}
	var d resultDocument
	err = s.results.FindOne(ctx, bson.M{"_id": documentID(batch, line)}).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, unavailableLine("read", batch, line, err)
	}
	r, err = d.result()
	return r, err == nil && d.Status != "", err
}

// Finished returns which of the lines from to to (both included) have a result, good or bad. It takes a byte for each
// line between them.
func (s *Store) Finished(ctx context.Context, batch string, from, to int) (*LineSet, error) {
	return s.lines(ctx, "finished", batch, from, to, bson.E{Key: fieldStatus, Value: bson.M{"$exists": true}})
}

// Unanswered returns which of the lines from to to (both included) are stored without a result: lines given to
// [Store.Name], lines with a failed attempt, and lines that were put back.
func (s *Store) Unanswered(ctx context.Context, batch string, from, to int) (*LineSet, error) {
	return s.lines(ctx, "unanswered", batch, from, to, unfinished(),
		bson.E{Key: fieldCustom, Value: bson.M{"$exists": true}})
}

// lines are those from to to whose documents are as which says; what is their name.
func (s *Store) lines(ctx context.Context, what, batch string, from, to int, which ...bson.E) (*LineSet, error) {
	if err := checkLine(batch, from); err != nil {
		return nil, err
	}
	if to < from {
		return &LineSet{}, nil
	}
	if err := checkLine(batch, to); err != nil {
		return nil, err
	}
	set := &LineSet{from: from, has: make([]bool, to-from+1)}
	var malformed error
	err := s.eachID(ctx, append(bson.D{linesOf(batch, from, to)}, which...), func(id string) {
		_, line, err := parseDocumentID(id)
		if err != nil {
			malformed = err
			return
		}
		set.add(line)
	})
	if err != nil {
		return nil, unavailable("read the "+what+" lines of", batch, err)
	}
	return set, malformed
}

// Results yields the results of a batch, good and bad, in the order of the lines. It reads page by page, so results
// that are written meanwhile are there if their page was not read yet. An error is yielded once, as the last.
func (s *Store) Results(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, bson.E{Key: fieldStatus, Value: bson.M{"$exists": true}})
}

// FailedOnes yields the failed results of a batch as [Store.Results] does.
func (s *Store) FailedOnes(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, bson.E{Key: fieldStatus, Value: statusFailed})
}

// All yields every request of a batch of which something is stored, as [Store.Results] does: also those that have no
// result yet, which have no Finished.
func (s *Store) All(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, bson.E{Key: fieldCustom, Value: bson.M{"$exists": true}})
}

func (s *Store) stream(ctx context.Context, batch string, which bson.E) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := checkID(batch); err != nil {
			yield(Result{}, err)
			return
		}
		for from := 1; ; {
			next, more, err := s.page(ctx, batch, from, which, func(r Result) bool { return yield(r, nil) })
			if err != nil {
				yield(Result{}, err)
				return
			}
			if !more {
				return
			}
			from = next
		}
	}
}

// page yields a page of results and returns the line where the next one begins. more is false after the last one, and
// where yield has had enough. The server keeps nothing open between two pages, so the reader may be slow.
func (s *Store) page(
	ctx context.Context, batch string, from int, which bson.E, yield func(Result) bool,
) (next int, more bool, err error) {
	o := options.Find().SetSort(bson.M{"_id": 1}).SetLimit(page).SetBatchSize(page)
	cursor, err := s.results.Find(ctx, bson.D{linesOf(batch, from, maxLine), which}, o)
	if err != nil {
		return 0, false, unavailable("read the results of", batch, err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	n := 0
	for cursor.Next(ctx) {
		var d resultDocument
		if err := cursor.Decode(&d); err != nil {
			return 0, false, fmt.Errorf("%w: after line %d of batch %q: %w", ErrMalformed, from-1, batch, err)
		}
		r, err := d.result()
		if err != nil {
			return 0, false, err
		}
		if !yield(r) {
			return 0, false, nil
		}
		from = r.Line + 1
		n++
	}
	if err := cursor.Err(); err != nil {
		return 0, false, unavailable("read the results of", batch, err)
	}
	return from, n == page, nil
}

// LineSet is a set of lines. It does not change once it was returned, so concurrent callers may read it.
type LineSet struct {
	from int
	has  []bool
	n    int
}

func (l *LineSet) add(line int) {
	if i := line - l.from; i >= 0 && i < len(l.has) && !l.has[i] {
		l.has[i] = true
		l.n++
	}
}

// Has says whether line is in the set.
func (l *LineSet) Has(line int) bool {
	return line >= l.from && line-l.from < len(l.has) && l.has[line-l.from]
}

// Len returns the number of lines in the set.
func (l *LineSet) Len() int { return l.n }

// Named is a request that has no result, with the name its caller gave it.
type Named struct {
	Line     int
	CustomID string
}

// Name stores the names of requests that have no result and may never get one, such as those of a cancelled batch.
// Requests that have a result stay as they are.
func (s *Store) Name(ctx context.Context, batch string, named []Named) error {
	if len(named) == 0 {
		return nil
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	models := make([]mongo.WriteModel, len(named))
	for i, n := range named {
		if err = checkLine(batch, n.Line); err != nil {
			return err
		}
		filter := bson.D{{Key: "_id", Value: documentID(batch, n.Line)}, unfinished()}
		set := bson.M{fieldCustom: name(n.CustomID), fieldExpires: expires}
		models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(bson.M{"$set": set}).SetUpsert(true)
	}
	_, err = s.results.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if err != nil && !mongo.IsDuplicateKeyError(err) { // a duplicate has a result, or another caller names it
		return unavailable("name requests of", batch, err)
	}
	return nil
}

// Rounds returns how often each of the lines from to to (both included) was put back by [Store.Reopen], where it has no
// result now. Lines that were never put back are left out.
func (s *Store) Rounds(ctx context.Context, batch string, from, to int) (map[int]int, error) {
	if err := checkLine(batch, from); err != nil {
		return nil, err
	}
	filter := bson.D{linesOf(batch, from, to), unfinished(), {Key: fieldRound, Value: bson.M{"$gt": 0}}}
	projection := options.Find().SetProjection(bson.M{"_id": 1, fieldRound: 1})
	cursor, err := s.results.Find(ctx, filter, projection)
	if err != nil {
		return nil, unavailable("read the rounds of", batch, err)
	}
	var found []struct {
		ID    string `bson:"_id"`
		Round int    `bson:"round"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, unavailable("read the rounds of", batch, err)
	}
	rounds := map[int]int{}
	for _, d := range found {
		_, line, err := parseDocumentID(d.ID)
		if err != nil {
			return nil, err
		}
		rounds[line] = d.Round
	}
	return rounds, nil
}
