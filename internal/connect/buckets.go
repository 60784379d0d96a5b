package connect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// keyKept names the database in which the processes of a Redis keep their buckets.
const keyKept = "headway:{buckets}:kept"

// ErrKeptElsewhere is matched when other processes of the same Redis keep their buckets in another database: each limit
// would count twice.
var ErrKeptElsewhere = errors.New("buckets are kept elsewhere")

// Overriding stores the rates that were set while the fleet runs, as the stores of mongostore and redisstore do.
type Overriding interface {
	SetOverride(ctx context.Context, set reservations.Override) error
	UnsetOverride(ctx context.Context, limit, key, meter string) (bool, error)
	Overrides(ctx context.Context) ([]reservations.Override, error)
}

// Buckets are the shared buckets, the overrides of their limits, and what is kept in MongoDB.
type Buckets struct {
	reservations.Store
	Overriding

	redis    redis.UniversalClient // that of Open, if it is not the caller's
	database *mongo.Database       // nil without MONGODB_URI
}

// InMongo says whether MongoDB is given, which keeps batches, results and dead tasks.
func (b *Buckets) InMongo() bool { return b.database != nil }

// Close ends the connections.
func (b *Buckets) Close(ctx context.Context) error {
	var err error
	if b.database != nil {
		err = b.database.Client().Disconnect(ctx)
	}
	if b.redis != nil {
		err = errors.Join(err, b.redis.Close())
	}
	return err
}

// Kept is where buckets are kept: as headway.yaml says, else in MongoDB if MONGODB_URI is set, else in Redis.
func Kept(getenv func(string) string, said string) string {
	switch {
	case said != "":
		return said
	case getenv("MONGODB_URI") != "":
		return config.BucketsMongoDB
	}
	return config.BucketsRedis
}

// Open connects to the buckets where Kept says, and to MongoDB if MONGODB_URI is set. Queue is the Redis of the queue,
// which stays the caller's; nil connects to REDIS_URL if that is needed. All processes of a Redis have to keep their
// buckets in one place: otherwise the error matches ErrKeptElsewhere. Other errors, notice and change are as for Redis
// and Mongo. The caller closes the buckets.
func Open(
	ctx context.Context, getenv func(string) string, said string, queue redis.UniversalClient, notice io.Writer,
	change ...func(*options.ClientOptions),
) (b *Buckets, err error) {
	kept := Kept(getenv, said)
	b = &Buckets{}
	if kept == config.BucketsMongoDB || getenv("MONGODB_URI") != "" {
		if b, err = Mongo(ctx, getenv, notice, change...); err != nil {
			return nil, err
		}
	}
	if queue == nil && kept == config.BucketsRedis {
		if queue, err = Redis(ctx, getenv); err != nil {
			return nil, errors.Join(err, b.Close(ctx))
		}
		b.redis = queue
	}
	if queue != nil {
		err = agree(ctx, queue, kept)
	}
	if err == nil && kept == config.BucketsRedis {
		var store *redisstore.Store
		store, err = redisstore.Open(ctx, queue)
		b.Store, b.Overriding = store, store
	}
	if err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// agree makes sure that all processes of a Redis keep their buckets in one place.
func agree(ctx context.Context, queue redis.UniversalClient, kept string) error {
	err := queue.SetNX(ctx, keyKept, kept, 0).Err()
	others := ""
	if err == nil {
		others, err = queue.Get(ctx, keyKept).Result()
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: ask where buckets are kept: %w", reservations.ErrUnavailable, err)
	case others != kept:
		return fmt.Errorf("%w: other workers of this Redis keep theirs in %s, this process would in %s, "+
			"and each limit would count twice. Give it their MONGODB_URI and their `buckets` in headway.yaml. "+
			"To move the fleet, stop all workers and delete the key %s", ErrKeptElsewhere, others, kept, keyKept)
	}
	return nil
}
