package batches

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/mongoerr"
)

// Find returns the stored document of a request. ok is true if it has a result. If not, the Result has the attempts
// so far.
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

// FindNamed returns the stored document of the request with this custom_id. Found is false if there is none, as of a
// request that waits for its first attempt. FindNamed reads the documents of the batch.
func (s *Store) FindNamed(ctx context.Context, batch, customID string) (r Result, found bool, err error) {
	if err := checkID(batch); err != nil {
		return Result{}, false, err
	}
	for r, err := range s.stream(ctx, batch, bson.E{Key: fieldCustom, Value: name(customID)}) {
		return r, err == nil, err
	}
	return Result{}, false, nil
}

// Finished returns the lines from to to (both included) that have a result, good or bad, and how often [Store.Reopen]
// put the others back. The set takes a byte per line.
func (s *Store) Finished(ctx context.Context, batch string, from, to int) (*LineSet, error) {
	return s.lines(ctx, true, batch, from, to, bson.E{Key: "$or", Value: bson.A{
		bson.M{fieldStatus: bson.M{"$exists": true}}, bson.M{fieldRound: bson.M{"$gt": 0}},
	}})
}

// Unanswered returns the lines from to to (both included) that are stored without a result: lines given to
// [Store.Name], lines with a failed attempt, and lines that were put back.
func (s *Store) Unanswered(ctx context.Context, batch string, from, to int) (*LineSet, error) {
	return s.lines(ctx, false, batch, from, to, unfinished(),
		bson.E{Key: fieldCustom, Value: bson.M{"$exists": true}})
}

// lines returns the lines from to to whose documents match which, and that have a result, or have none.
func (s *Store) lines(
	ctx context.Context, ended bool, batch string, from, to int, which ...bson.E,
) (*LineSet, error) {
	if err := checkLine(batch, from); err != nil {
		return nil, err
	}
	if to < from {
		return &LineSet{}, nil
	}
	if err := checkLine(batch, to); err != nil {
		return nil, err
	}
	set := &LineSet{from: from, has: make([]bool, to-from+1), rounds: map[int]int{}}
	shown := options.Find().SetProjection(bson.M{"_id": 1, fieldStatus: 1, fieldRound: 1})
	cursor, err := s.results.Find(ctx, append(bson.D{linesOf(batch, from, to)}, which...), shown)
	if err != nil {
		return nil, unavailable("read the lines of", batch, err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	var malformed error
	for cursor.Next(ctx) {
		id, _ := cursor.Current.Lookup("_id").StringValueOK()
		_, line, unnamed := parseDocumentID(id)
		if unnamed != nil {
			malformed = unnamed
		} else if _, open := cursor.Current.LookupErr(fieldStatus); (open == nil) == ended {
			set.add(line)
		} else if n, ok := cursor.Current.Lookup(fieldRound).AsInt64OK(); ok {
			set.rounds[line] = int(n)
		}
	}
	if err = cursor.Err(); err != nil {
		return nil, unavailable("read the lines of", batch, err)
	}
	return set, malformed
}

// All yields every stored request of a batch in the order of the lines. A request without a result has a zero
// Finished. All reads page by page, so it yields later results if it has not read their page yet. An error is the last
// value.
func (s *Store) All(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, bson.E{Key: fieldCustom, Value: bson.M{"$exists": true}})
}

// FailedOnes yields the failed results of a batch, in the way of [Store.All].
func (s *Store) FailedOnes(ctx context.Context, batch string) iter.Seq2[Result, error] {
	return s.stream(ctx, batch, bson.E{Key: fieldStatus, Value: statusFailed})
}

func (s *Store) stream(ctx context.Context, batch string, which bson.E) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		if err := checkID(batch); err != nil {
			yield(Result{}, err)
			return
		}
		from := 1
		query := func() any { return bson.D{linesOf(batch, from, maxLine), which} }
		for raw, err := range mongoerr.Pages(ctx, s.results, bson.D{{Key: "_id", Value: 1}}, bson.M{}, query) {
			if err != nil {
				yield(Result{}, unavailable("read the results of", batch, err))
				return
			}
			var d resultDocument
			var r Result
			if err = bson.Unmarshal(raw, &d); err != nil {
				err = fmt.Errorf("%w: after line %d of batch %q: %w", ErrMalformed, from-1, batch, err)
			} else {
				r, err = d.result()
			}
			if !yield(r, err) || err != nil {
				return
			}
			from = r.Line + 1
		}
	}
}

// LineSet is a set of lines. It does not change after it was returned, so concurrent callers may read it.
type LineSet struct {
	from   int
	has    []bool
	n      int
	rounds map[int]int
}

func (l *LineSet) add(line int) {
	if i := line - l.from; i >= 0 && i < len(l.has) && !l.has[i] {
		l.has[i] = true
		l.n++
	}
}

// Has returns whether line is in the set.
func (l *LineSet) Has(line int) bool {
	return line >= l.from && line-l.from < len(l.has) && l.has[line-l.from]
}

// Len returns the number of lines in the set.
func (l *LineSet) Len() int { return l.n }

// Round returns how often a line that is not in the set of [Store.Finished] was put back.
func (l *LineSet) Round(line int) int { return l.rounds[line] }

// Named is a request without a result, with its custom_id.
type Named struct {
	Line     int
	CustomID string
}

// Name stores the names of requests that have no result and may never get one, e.g. in a cancelled batch. It does not
// change requests with a result.
func (s *Store) Name(ctx context.Context, batch string, named []Named) error {
	if len(named) == 0 {
		return nil
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	documents := make([]bson.M, len(named))
	for i, n := range named {
		if err = checkLine(batch, n.Line); err != nil {
			return err
		}
		documents[i] = bson.M{"_id": documentID(batch, n.Line), fieldCustom: name(n.CustomID), fieldExpires: expires}
	}
	_, err = s.results.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	bulk, some := errors.AsType[mongo.BulkWriteException](err)
	var exist bson.A // these have a name
	for _, e := range bulk.WriteErrors {
		if some = some && mongo.IsDuplicateKeyError(e.WriteError); some {
			exist = append(exist, documents[e.Index]["_id"])
		}
	}
	if some && bulk.WriteConcernError == nil {
		filter := bson.D{{Key: "_id", Value: bson.M{"$in": exist}}, unfinished()}
		_, err = s.results.UpdateMany(ctx, filter, bson.M{"$set": bson.M{fieldExpires: expires}})
	}
	if err != nil {
		return unavailable("store names of requests of", batch, err)
	}
	return nil
}
