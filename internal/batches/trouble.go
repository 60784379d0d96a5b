package batches

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
