package mongoerr

import (
	"context"
	"iter"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

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
