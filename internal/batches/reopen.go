package batches

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// sendBytes is about the most that is held of requests that are put back.
const sendBytes = 8_000_000

// Reopen puts the failed results of a batch back: they have no result any more, and keep their attempts and their
// usage. Then it calls send with their requests, some hundred or some MB at a time and in the order of the lines, and
// returns how many were sent.
//
// Send must enqueue them all, or return an error. It may be given a request again where a process was killed, or an
// error came, between send and the note that it was done: name a task by batch, line and [Result.Round], and it is
// enqueued once. What was put back by a call that did not come to its end is sent by the next call. Failed results
// whose request is not stored stay as they are. A batch that is cancelled is put back as well.
func (s *Store) Reopen(
	ctx context.Context, batch string, send func(context.Context, []Result) error,
) (n int, err error) {
	if err = s.putBack(ctx, batch); err != nil {
		return 0, err
	}
	again := bson.E{Key: fieldAgain, Value: true}
	for from, more := 1, true; more; {
		var results []Result
		size := 0
		from, more, err = s.page(ctx, batch, from, again, func(r Result) bool {
			results = append(results, r)
			size += len(r.Request)
			return size < sendBytes
		})
		if size >= sendBytes {
			from, more = results[len(results)-1].Line+1, true
		}
		if err != nil || len(results) == 0 {
			return n, err
		}
		if err := send(ctx, results); err != nil {
			return n, err
		}
		n += len(results)
		if err := s.sent(ctx, batch, results); err != nil {
			return n, err
		}
	}
	return n, nil
}

// putBack takes the results away from the failed requests. The record changes before and after, so that no Counter
// keeps sums of what was put back.
func (s *Store) putBack(ctx context.Context, batch string) error {
	tell := func(field string) error {
		_, err := s.changeBatch(ctx, "reopen", batch, bson.M{"$inc": bson.M{field: 1}})
		return err
	}
	if err := tell("reopen_begun"); err != nil {
		return err
	}
	expires, err := s.expiry(ctx, batch)
	if err != nil {
		return err
	}
	filter := bson.D{
		linesOf(batch, 1, maxLine),
		{Key: fieldStatus, Value: statusFailed},
		{Key: fieldRequest, Value: bson.M{"$exists": true}},
	}
	gone := bson.D{}
	for _, field := range []string{fieldStatus, fieldAt, fieldCode, "request_id", fieldBody, fieldFailure} {
		gone = append(gone, bson.E{Key: field, Value: ""})
	}
	update := bson.M{
		"$set":   bson.M{fieldAgain: true, fieldExpires: expires},
		"$unset": gone,
		"$inc":   bson.M{fieldRound: 1},
	}
	if _, err := s.results.UpdateMany(ctx, filter, update); err != nil {
		return unavailable("reopen", batch, err)
	}
	return tell("reopen_ended")
}

// sent notes that requests were sent. One that failed meanwhile and was put back once more has another round.
func (s *Store) sent(ctx context.Context, batch string, results []Result) error {
	rounds := map[int]bson.A{}
	for _, r := range results {
		rounds[r.Round] = append(rounds[r.Round], documentID(batch, r.Line))
	}
	var models []mongo.WriteModel
	for round, ids := range rounds {
		filter := bson.M{"_id": bson.M{"$in": ids}, fieldRound: round}
		update := bson.M{"$unset": bson.M{fieldAgain: ""}}
		models = append(models, mongo.NewUpdateManyModel().SetFilter(filter).SetUpdate(update))
	}
	if _, err := s.results.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)); err != nil {
		return unavailable("note what was sent of", batch, err)
	}
	return nil
}
