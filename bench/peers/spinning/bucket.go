package spinning

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/bench/contest"
)

// buckets are token buckets, one document each: the tokens after the last try, and its time by the server's clock.
type buckets struct {
	client *mongo.Client
	docs   *mongo.Collection
}

func open(env contest.Env, probe *contest.Probe) (*buckets, error) {
	o := options.Client().ApplyURI(env.MongoURI)
	probe.CountCommands(o)
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, fmt.Errorf("spinning: connect to MongoDB: %w", err)
	}
	return &buckets{client: client, docs: client.Database(env.Database).Collection("buckets")}, nil
}

// take takes n tokens, if the bucket has as many. A missing bucket is full.
func (b *buckets) take(ctx context.Context, limit contest.Limit, n int) (taken bool, err error) {
	elapsed := bson.M{"$subtract": bson.A{"$$NOW", bson.M{"$ifNull": bson.A{"$at", "$$NOW"}}}}
	filled := bson.M{"$add": bson.A{
		bson.M{"$ifNull": bson.A{"$tokens", limit.Burst}},
		bson.M{"$multiply": bson.A{elapsed, limit.Rate / 1000}}, // elapsed is in milliseconds
	}}
	update := bson.A{
		bson.M{"$set": bson.M{"tokens": bson.M{"$min": bson.A{limit.Burst, filled}}, "at": "$$NOW"}},
		bson.M{"$set": bson.M{"taken": bson.M{"$gte": bson.A{"$tokens", n}}}},
		bson.M{
			"$set": bson.M{"tokens": bson.M{"$cond": bson.A{"$taken", bson.M{"$subtract": bson.A{"$tokens", n}}, "$tokens"}}},
		},
	}
	var answer struct {
		Taken bool `bson:"taken"`
	}
	err = b.docs.FindOneAndUpdate(ctx, bson.M{"_id": limit.Key}, update,
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).
			SetProjection(bson.M{"taken": 1})).Decode(&answer)
	if mongo.IsDuplicateKeyError(err) {
		return false, nil // another process created the bucket at the same time
	}
	if err != nil {
		return false, fmt.Errorf("spinning: take %d of %s: %w", n, limit.Key, err)
	}
	return answer.Taken, nil
}

// giveBack adds n tokens that were taken and not used.
func (b *buckets) giveBack(ctx context.Context, limit contest.Limit, n int) error {
	update := bson.M{"$inc": bson.M{"tokens": n}}
	if _, err := b.docs.UpdateByID(ctx, limit.Key, update); err != nil {
		return fmt.Errorf("spinning: give back %d of %s: %w", n, limit.Key, err)
	}
	return nil
}

func (b *buckets) close(ctx context.Context) error {
	if err := b.client.Disconnect(ctx); err != nil {
		return fmt.Errorf("spinning: disconnect from MongoDB: %w", err)
	}
	return nil
}
