package batches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/mongoerr"
)

// maxTries bounds how often a write is sent again after other writers changed the same document. Each conflict means
// that another writer made progress, so few are needed.
const maxTries = 10

// Outcome is the outcome of one result of a [Store.FinishMany].
type Outcome struct {
	// First is true if this call wrote the result. If it is false and Err is nil, there was a result already, which
	// stays.
	First bool

	// Err is set if the result may be stored or not. Call Finish again.
	Err error
}

// Attempt stores a failed attempt of a request that has not ended. It stores the same attempt only once. It drops
// attempts of a request that has ended, and attempts above [AttemptsMost].
func (s *Store) Attempt(ctx context.Context, batch string, line int, customID string, a Attempt) error {
	if err := checkLine(batch, line); err != nil {
		return err
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	update := bson.M{
		"$set":      bson.M{fieldCustom: name(customID), fieldExpires: expires},
		"$addToSet": bson.M{fieldTries: bson.M{"$each": attemptDocuments([]Attempt{a})}},
	}
	return s.untilWritten(ctx, batch, line, update)
}

// untilWritten applies an update to a document without a result. It does nothing if there is a result, or no room for
// attempts.
func (s *Store) untilWritten(ctx context.Context, batch string, line int, update bson.M) error {
	filter := bson.D{{Key: "_id", Value: documentID(batch, line)}, unfinished(), hasRoom()}
	upsert := true
	for n := 1; ; n++ {
		_, err := s.results.UpdateOne(ctx, filter, update, options.UpdateOne().SetUpsert(upsert))
		if err == nil {
			return nil
		}
		// The document exists: with a result, or just inserted by another writer. An update without upsert shows
		// which.
		duplicate := mongo.IsDuplicateKeyError(err)
		if !mongoerr.Conflict(err) || n == maxTries {
			return unavailableLine("store an attempt of", batch, line, err)
		}
		upsert = upsert && !duplicate
	}
}

// Finish stores the result of a request that has none. It takes one round trip, and a few more if another writer
// changes the same document. After Finish returns without an error, the result is stored. It never changes, unless
// [Store.Reopen] puts it back. First is true if this call wrote the result. After an error, call Finish again: it
// returns false if the first call was applied after all.
func (s *Store) Finish(ctx context.Context, r Result) (first bool, err error) {
	o := s.FinishMany(ctx, []Result{r})[0]
	return o.First, o.Err
}

// FinishMany is [Store.Finish] for several results, in one round trip. The outcomes are in the order of the results.
// A result that fails does not stop the others. A result that is too large for its document is stored without its
// answer and its request, as a failure with [CodeTooLarge].
func (s *Store) FinishMany(ctx context.Context, results []Result) []Outcome {
	outcomes := make([]Outcome, len(results))
	todo := make([]finish, 0, len(results))
	for i, r := range results {
		f, err := s.finish(ctx, r)
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		f.outcome = &outcomes[i]
		todo = append(todo, f)
	}
	for n := 1; len(todo) > 0; n++ {
		met := s.write(ctx, todo)
		if len(met) == 0 {
			break
		}
		if n == maxTries {
			for _, f := range met {
				f.outcome.Err = unavailableLine("finish", f.batch, f.line, errContended)
			}
			break
		}
		todo = s.withoutResult(ctx, met)
	}
	return outcomes
}

var errContended = errors.New("another writer changed the document each time")

// finish is one result on its way into its document.
type finish struct {
	batch   string
	line    int
	id      string
	result  Result
	expires time.Time
	less    bool // without answer and request
	outcome *Outcome
}

// shrink removes the large parts of a result. It returns false if they are removed already.
func (f *finish) shrink() bool {
	if f.less {
		return false
	}
	f.less = true
	size := len(f.result.Request)
	if r := f.result.Response; r != nil {
		size += len(r.Body)
		f.result.Response = &Response{StatusCode: r.StatusCode, RequestID: r.RequestID}
	}
	f.result.Failure = &Failure{Code: CodeTooLarge, Message: tooLarge("answer and the request", size, f.result.Failure)}
	f.result.Request, f.result.Attempts = nil, nil
	return true
}

func (s *Store) finish(ctx context.Context, r Result) (finish, error) {
	if err := checkLine(r.Batch, r.Line); err != nil {
		return finish{}, err
	}
	expires, err := s.expiry(ctx, r.Batch)
	if err != nil {
		return finish{}, err
	}
	if r.Finished.IsZero() {
		r.Finished = s.now()
	}
	return finish{batch: r.Batch, line: r.Line, id: documentID(r.Batch, r.Line), result: r, expires: expires}, nil
}

// write sends all results and sets their outcomes. It returns the results whose documents existed or changed
// meanwhile.
func (s *Store) write(ctx context.Context, todo []finish) []finish {
	models := make([]mongo.WriteModel, len(todo))
	for i, f := range todo {
		filter := bson.D{{Key: "_id", Value: f.id}, unfinished()}
		models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(finishUpdate(f.result,
			f.expires)).SetUpsert(true)
	}
	failed, all := mongoerr.Bulk(ctx, s.results, models)
	var met []finish
	for i, f := range todo { // f is a copy; met gets its final state
		err := cmp.Or(failed[i], all)
		switch {
		case err == nil:
			f.outcome.First = true // The update inserted the document, or matched it without a result.
		case mongoerr.Conflict(err), mongoerr.TooLarge(err) && f.shrink():
			met = append(met, f)
		default:
			f.outcome.Err = unavailableLine("finish", f.batch, f.line, err)
		}
	}
	return met
}

// withoutResult returns the results whose documents have none. The others are not the first.
func (s *Store) withoutResult(ctx context.Context, met []finish) []finish {
	ids := make(bson.A, len(met))
	for i, f := range met {
		ids[i] = f.id
	}
	filter := bson.M{"_id": bson.M{"$in": ids}, fieldStatus: bson.M{"$exists": true}}
	finished := map[string]bool{}
	err := s.eachID(ctx, filter, func(id string, _ bson.Raw) { finished[id] = true })
	if err != nil {
		for _, f := range met {
			f.outcome.Err = unavailableLine("finish", f.batch, f.line, err)
		}
		return nil
	}
	var again []finish
	for _, f := range met {
		if !finished[f.id] {
			again = append(again, f)
		}
	}
	return again
}

// eachID calls yield with the _id of every matching document, and its status and round, in no particular order.
func (s *Store) eachID(ctx context.Context, filter any, yield func(id string, d bson.Raw)) error {
	shown := bson.M{"_id": 1, fieldStatus: 1, fieldRound: 1}
	cursor, err := s.results.Find(ctx, filter, options.Find().SetProjection(shown))
	if err != nil {
		return err
	}
	defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
	for cursor.Next(ctx) {
		id, ok := cursor.Current.Lookup("_id").StringValueOK()
		if !ok {
			return fmt.Errorf("%w: its _id is a %s", ErrMalformed, cursor.Current.Lookup("_id").Type)
		}
		yield(id, cursor.Current)
	}
	return cursor.Err()
}
