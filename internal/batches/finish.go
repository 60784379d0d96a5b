package batches

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/mongoerr"
)

// maxTries bounds how often a write is sent again after other writers changed the same document. Each conflict means
// that another writer made progress, so few are needed.
const maxTries = 10

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
		"$set":      bson.M{fieldCustom: cut(customID, maxName), fieldExpires: expires},
		"$addToSet": addAttempts([]Attempt{a}),
	}
	s.write(ctx, "store an attempt of", []write{{
		result: Result{Batch: batch, Line: line}, filter: bson.D{unfinished(), hasRoom()}, update: update, err: &err,
	}})
	return err
}

// Finish stores the result of a request that has none. It takes one round trip, and a few more if another writer
// changes the same document. After Finish returns without an error, the request has a result: this one, or one that
// was stored before. The result never changes, unless [Store.Reopen] puts it back. After an error this result may be
// stored or not: call Finish again.
func (s *Store) Finish(ctx context.Context, r Result) error { return s.FinishMany(ctx, []Result{r})[0] }

// FinishMany is [Store.Finish] for several results, in one round trip. The errors are in the order of the results.
// A result that fails does not stop the others. A result that is too large for its document is stored as a failure
// with [CodeTooLarge]: without its answer, its request, or both.
func (s *Store) FinishMany(ctx context.Context, results []Result) []error {
	errs := make([]error, len(results))
	todo := make([]write, 0, len(results))
	for i, r := range results {
		if errs[i] = checkLine(r.Batch, r.Line); errs[i] != nil {
			continue
		}
		var expires time.Time
		if expires, errs[i] = s.expiry(ctx, r.Batch); errs[i] != nil {
			continue
		}
		if r.Finished.IsZero() {
			r.Finished = s.now()
		}
		todo = append(todo, write{
			result: r, filter: bson.D{unfinished()}, update: finishUpdate(r, expires), expires: expires, err: &errs[i],
		})
	}
	s.write(ctx, "finish", todo)
	return errs
}

// write is an update on its way into the document of a request.
type write struct {
	result  Result // Batch and Line name the document
	filter  bson.D // the update is not needed if the document exists and does not match
	update  bson.M
	expires time.Time // of a result; zero for an attempt
	exists  bool      // the document does
	err     *error
}

// shrink removes the answer of a result, or its request and its attempts: the larger of both. It returns false if
// neither is left.
func (w *write) shrink() bool {
	r := &w.result
	what, size := "request for a retry", len(r.Request)
	switch {
	case w.expires.IsZero():
		return false
	case r.Response != nil && len(r.Response.Body) > size:
		what, size = "answer", len(r.Response.Body)
		r.Response = &Response{StatusCode: r.Response.StatusCode, RequestID: r.Response.RequestID}
	case size+len(r.Attempts) > 0:
		r.Request, r.Attempts = nil, nil
	default:
		return false
	}
	text := fmt.Sprintf("the %s of %d bytes does not fit into a document of 16 MB and was not stored", what, size)
	if r.Failure != nil {
		text = r.Failure.Message + "; " + text
	}
	r.Failure = &Failure{Code: CodeTooLarge, Message: text}
	w.update = finishUpdate(*r, w.expires)
	return true
}

// write sends all updates in one round trip, and again the ones that met another writer. It sets their errors.
func (s *Store) write(ctx context.Context, op string, todo []write) {
	for n := 1; len(todo) > 0; n++ {
		models := make([]mongo.WriteModel, len(todo))
		for i, w := range todo {
			filter := append(bson.D{{Key: "_id", Value: documentID(w.result.Batch, w.result.Line)}}, w.filter...)
			models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(w.update).SetUpsert(!w.exists)
		}
		failed, all := mongoerr.Bulk(ctx, s.results, models)
		var again []write
		for i, w := range todo {
			switch err := cmp.Or(failed[i], all); {
			case err == nil:
			case n < maxTries && mongoerr.Conflict(err):
				// The document does not match, or another writer has just inserted it. An update without upsert shows
				// which.
				w.exists = w.exists || mongo.IsDuplicateKeyError(err)
				again = append(again, w)
			case mongoerr.TooLarge(err) && w.shrink():
				again = append(again, w)
			default:
				*w.err = unavailableLine(op, w.result.Batch, w.result.Line, err)
			}
		}
		todo = again
	}
}
