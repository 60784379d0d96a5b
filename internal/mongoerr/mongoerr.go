// Package mongoerr says what errors of MongoDB's driver mean, for servers of MongoDB and FerretDB. It writes in bulk by
// that, and reads in pages.
package mongoerr

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

// TooLarge returns whether a database refused a write because the document would be too large. A retry cannot
// succeed, and the store is up.
func TooLarge(err error) bool {
	const (
		objectTooLarge, afterUpdate, afterReplace = 10334, 17419, 17420
		// DocumentDB behind FerretDB returns a different code for each kind of write.
		ofDocumentDB = "larger than MaxDocumentSize"
	)
	if errors.Is(err, driver.ErrDocumentTooLarge) {
		return true
	}
	var se mongo.ServerError
	return errors.As(err, &se) && (se.HasErrorCode(objectTooLarge) || se.HasErrorCode(afterUpdate) ||
		se.HasErrorCode(afterReplace) || se.HasErrorMessage(ofDocumentDB))
}

// writesMost bounds the writes of one document by Patiently.
const writesMost = 5

// Patiently repeats a write while it meets other writers, at most 5 times in all. It returns the last error.
func Patiently(write func() error) (err error) {
	for range writesMost {
		if err = write(); !Conflict(err) {
			break
		}
	}
	return err
}

// Conflict returns whether a write changed nothing because another writer was faster: the document exists, or it
// changed meanwhile.
func Conflict(err error) bool {
	const writeConflict = 112
	var se mongo.ServerError
	return mongo.IsDuplicateKeyError(err) || errors.As(err, &se) && (se.HasErrorCode(writeConflict) ||
		strings.Contains(se.Error(), "duplicate key value violates unique constraint")) // FerretDB, now and then
}

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

// Page is the number of documents that Pages reads at once.
const Page = 200

// Pages yields the documents of a collection in this order, with the fields that shown projects. Query is called
// before each page, and returns the documents behind the last one that was yielded. A document is valid until the next
// one. An error is the last value. Between two pages the server keeps no cursor open, so the reader may be slow.
func Pages(
	ctx context.Context, from *mongo.Collection, order bson.D, shown bson.M, query func() any,
) iter.Seq2[bson.Raw, error] {
	o := options.Find().SetSort(order).SetProjection(shown).SetLimit(Page).SetBatchSize(Page)
	return func(yield func(bson.Raw, error) bool) {
		page := func() (more bool) {
			cursor, err := from.Find(ctx, query(), o)
			n := 0
			if err == nil {
				defer func() { _ = cursor.Close(context.WithoutCancel(ctx)) }()
				for cursor.Next(ctx) {
					if n++; !yield(cursor.Current, nil) {
						return false
					}
				}
				err = cursor.Err()
			}
			if err != nil {
				yield(nil, err)
			}
			return err == nil && n == Page
		}
		for page() {
		}
	}
}
