package mongoerr

import (
	"cmp"
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Bulk writes all models in one round trip, in no order. It returns the faults of single models by their place, or the
// error of all of them. If the models are too large together, it writes each alone.
func Bulk(ctx context.Context, to *mongo.Collection, models []mongo.WriteModel) (faults map[int]error, err error) {
	_, err = to.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	bulk, single := errors.AsType[mongo.BulkWriteException](err)
	faults = map[int]error{}
	switch {
	case single && bulk.WriteConcernError == nil:
		for _, e := range bulk.WriteErrors {
			faults[e.Index] = e
		}
		return faults, nil
	case TooLarge(err) && len(models) > 1:
		for i := range models {
			one, all := Bulk(ctx, to, models[i:i+1])
			if fault := cmp.Or(one[0], all); fault != nil {
				faults[i] = fault
			}
		}
		return faults, nil
	}
	return faults, err
}
