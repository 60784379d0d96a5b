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
	for r, err := range s.stream(ctx, batch, bson.E{Key: fieldCustom, Value: cut(customID, maxName)}) {
		return r, err == nil, err
	}
	return Result{}, false, nil
}

// Lines returns the stored requests among the lines from to to, both included.
func (s *Store) Lines(ctx context.Context, batch string, from, to int) (Lines, error) {
	if err := checkLine(batch, from); err != nil || to < from {
		return nil, err
	}
	if err := checkLine(batch, to); err != nil {
		return nil, err
	}
	shown := options.Find().SetProjection(bson.M{"_id": 1, fieldStatus: 1, fieldRound: 1})
	cursor, err := s.results.Find(ctx, bson.D{linesOf(batch, from, to)}, shown)
	if err != nil {
		return nil, unavailable("read the lines of", batch, err)
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	lines := Lines{}
	for cursor.Next(ctx) {
		id, _ := cursor.Current.Lookup("_id").StringValueOK()
		_, line, malformed := parseDocumentID(id)
		if malformed != nil {
			continue // it is no line
		}
		round, _ := cursor.Current.Lookup(fieldRound).AsInt64OK()
		if _, open := cursor.Current.LookupErr(fieldStatus); open == nil {
			round = ended
		}
		lines[line] = int(round)
	}
	if err = cursor.Err(); err != nil {
		return nil, unavailable("read the lines of", batch, err)
	}
	return lines, nil
}

// Lines are stored requests by their lines: ended, or how often [Store.Reopen] put the request back.
type Lines map[int]int

const ended = -1

// Ended returns whether a line has a result, good or bad.
func (l Lines) Ended(line int) bool { return l[line] == ended }

// Open returns whether a line is stored without a result: it was given to [Store.Name], has a failed attempt, or was
// put back.
func (l Lines) Open(line int) bool {
	round, stored := l[line]
	return stored && round != ended
}

// Round returns how often a line without a result was put back.
func (l Lines) Round(line int) int { return max(0, l[line]) }

// All yields every stored request of a batch in the order of the lines. A request without a result has a zero
// Finished. All reads page by page, so it yields later results if it has not read their page yet.
//
// A document that can't be read is an error that matches ErrMalformed and names its line. The Result beside it has as
// much of Line and CustomID as can be read, and the others follow. Any other error is the last value.
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
		last := documentID(batch, 0)
		query := func() any {
			behind := bson.D{{Key: "$gt", Value: last}, {Key: "$lte", Value: documentID(batch, maxLine)}}
			return bson.D{{Key: "_id", Value: behind}, which}
		}
		for raw, err := range mongoerr.Pages(ctx, s.results, bson.D{{Key: "_id", Value: 1}}, bson.M{}, query) {
			if err != nil {
				yield(Result{}, unavailable("read the results of", batch, err))
				return
			}
			last, _ = raw.Lookup("_id").StringValueOK() // the query finds texts only
			if !yield(decode(raw)) {
				return
			}
		}
	}
}

// decode returns the result in a document, as far as it can be read.
func decode(raw bson.Raw) (r Result, err error) {
	var d resultDocument
	if err = bson.Unmarshal(raw, &d); err == nil {
		if r, err = d.result(); err == nil {
			return r, nil
		}
	}
	id, _ := raw.Lookup("_id").StringValueOK()
	batch, line, unnamed := parseDocumentID(id)
	if unnamed != nil {
		return Result{}, unnamed
	}
	name, _ := raw.Lookup(fieldCustom).StringValueOK()
	if !errors.Is(err, ErrMalformed) {
		err = fmt.Errorf("%w: line %d of batch %q: %w", ErrMalformed, line, batch, err)
	}
	return Result{Batch: batch, Line: line, CustomID: name}, err
}

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
		documents[i] = bson.M{"_id": documentID(batch, n.Line), fieldCustom: cut(n.CustomID, maxName), fieldExpires: expires}
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

// Trouble is the newest error of a batch.
type Trouble struct {
	Attempt

	// Requests is the number of requests without a good answer whose last error has the same status. Requests without
	// an attempt have the code of their failure instead.
	Requests int
}

// Trouble returns the newest error among requests that failed, or wait for another attempt. It is zero if there is
// none. The error of a request without an attempt, such as an expired one, is its Failure.
func (s *Store) Trouble(ctx context.Context, batch string) (Trouble, error) {
	if err := checkID(batch); err != nil {
		return Trouble{}, err
	}
	pipeline := bson.A{
		bson.M{"$match": bson.D{
			linesOf(batch, 1, maxLine),
			{Key: fieldStatus, Value: bson.M{"$ne": statusDone}},
			{Key: "$or", Value: bson.A{
				bson.M{fieldTries + ".0": bson.M{"$exists": true}}, bson.M{fieldFailure: bson.M{"$exists": true}},
			}},
		}},
		bson.M{"$project": bson.M{"last": bson.M{"$ifNull": bson.A{
			bson.M{"$arrayElemAt": bson.A{"$" + fieldTries, -1}},
			bson.D{{Key: "at", Value: "$" + fieldAt}, {Key: fieldFailure, Value: "$" + fieldFailure}},
		}}}},
		bson.M{"$group": bson.M{
			"_id":      bson.M{"status": "$last.code", "code": "$last.failure.code"},
			"requests": bson.M{"$sum": 1},
			"newest":   bson.M{"$max": "$last"}, // documents compare by their first field, at
		}},
	}
	cursor, err := s.results.Aggregate(ctx, pipeline)
	var found []struct {
		Requests int `bson:"requests"`
		Newest   struct {
			Attempt `bson:",inline"`
			Failure *Failure `bson:"failure"`
		} `bson:"newest"`
	}
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return Trouble{}, unavailable("read the errors of", batch, err)
	}
	var t Trouble
	for _, d := range found {
		if d.Newest.At.Before(t.At) {
			continue
		}
		if t = (Trouble{Requests: d.Requests, Attempt: d.Newest.Attempt}); d.Newest.Failure != nil {
			t.Error = d.Newest.Failure.Code + ": " + d.Newest.Failure.Message
		}
	}
	return t, nil
}
