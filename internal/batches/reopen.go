package batches

import (
	"cmp"
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/mongoerr"
)

// sendBytes is about how many bytes of requests Reopen holds at a time.
const sendBytes = 8_000_000

// Reopen puts the failed results of a batch back: it deletes the results, and keeps attempts and usage. Then it calls
// send with the requests, in the order of the lines, a few hundred or a few MB at a time. It returns how many
// requests were sent.
//
// Send must enqueue all of them, or return an error. It may get a request twice, if the process is killed or fails
// before Reopen has stored that the request was sent. Give each task an ID of batch, line and [Result.Round], so that
// it is enqueued once. If a call does not end, the next call sends the requests that it put back. Failed results
// without a stored request stay. If a line is given, Reopen puts back no other; zero means all. Reopen also puts back
// the results of a cancelled batch. Requests that can't be read are passed over, and named in an error that matches
// ErrMalformed.
func (s *Store) Reopen(
	ctx context.Context, batch string, line int, send func(context.Context, []Result) error,
) (n int, err error) {
	if err = s.putBack(ctx, batch, line); err != nil {
		return 0, err
	}
	var results []Result
	size := 0
	flush := func() error {
		if len(results) == 0 {
			return nil
		}
		if err = send(ctx, results); err != nil {
			return err
		}
		n += len(results)
		err = s.sent(ctx, batch, results)
		results, size = nil, 0
		return err
	}
	var malformed []error
	for r, err := range s.stream(ctx, batch, bson.E{Key: fieldAgain, Value: true}) {
		if errors.Is(err, ErrMalformed) {
			malformed = append(malformed, err)
			continue
		}
		if err != nil {
			return n, err
		}
		results = append(results, r)
		if size += len(r.Request); len(results) < mongoerr.Page && size < sendBytes {
			continue
		}
		if err := flush(); err != nil {
			return n, err
		}
	}
	err = errors.Join(flush(), errors.Join(malformed...))
	return n, err
}

// putBack deletes the results of failed requests. The record of the batch changes before and after, so that no
// Counter keeps old sums.
func (s *Store) putBack(ctx context.Context, batch string, line int) error {
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
		linesOf(batch, max(1, line), cmp.Or(line, maxLine)),
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

// sent stores that requests were sent. It skips a request that failed meanwhile and was put back again, because its
// round differs.
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
		return unavailable("store which requests were sent of", batch, err)
	}
	return nil
}
