package connect

import (
	"context"
	"errors"
	"io"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/redisstore"
)

// Overriding stores the rates that were set while the fleet runs, as the stores of mongostore and redisstore do.
type Overriding interface {
	SetOverride(ctx context.Context, set reservations.Override) error
	UnsetOverride(ctx context.Context, limit, key, meter string) (bool, error)
	Overrides(ctx context.Context) ([]reservations.Override, error)
}

// Buckets are the shared buckets and the overrides of their limits. They also open the records: batches, results, dead
// tasks and estimates.
type Buckets struct {
	reservations.Store
	Overriding

	redis    redis.UniversalClient // the client of Open, if it is not the caller's.
	queue    redis.UniversalClient // has the records if there is no database
	keys     keys.Store            // where the buckets are
	database *mongo.Database       // nil without MONGODB_URI
	records  *mongostore.Store     // says which database it is; nil without one
	hosts    string                // of the database
	inMongo  bool                  // the buckets are in the database
}

// Keys are the keys of the gateway's callers, which are kept where the buckets are.
func (b *Buckets) Keys() keys.Store { return b.keys }

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
// buckets and their records in one place: otherwise the error matches register.ErrSplit. Other errors, notice and
// change are as for Redis and Mongo. The caller closes the buckets.
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
	b.queue = queue
	if kept == config.BucketsRedis {
		var store *redisstore.Store
		store, err = redisstore.Open(ctx, queue)
		b.Store, b.Overriding, b.keys = store, store, keys.InRedis(queue)
	}
	b.inMongo = kept == config.BucketsMongoDB
	if err == nil {
		err = b.agree(ctx, getenv, queue, register.RoleBuckets, register.RoleRecords)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// Identity implements reservations.Identified. That of MongoDB names its hosts.
func (b *Buckets) Identity(ctx context.Context) (reservations.Identity, error) {
	if store, ok := b.Store.(reservations.Identified); ok { // also where it is measured
		own, err := store.Identity(ctx)
		if b.inMongo {
			own.Place += " at " + b.hosts
		}
		return own, err
	}
	return reservations.Identity{}, nil
}

// identityOfRecords is zero without MONGODB_URI.
func (b *Buckets) identityOfRecords(ctx context.Context) (own reservations.Identity, err error) {
	if b.records == nil {
		return own, nil
	}
	own, err = b.records.Identity(ctx)
	own.Place += " at " + b.hosts
	return own, err
}

// agree makes sure that all processes of a Redis use the same stores in these roles. Without a queue it asks the Redis
// of the environment, if that answers.
func (b *Buckets) agree(
	ctx context.Context, getenv func(string) string, queue redis.UniversalClient, roles ...register.Role,
) error {
	if queue == nil {
		client, err := Redis(ctx, getenv)
		if err != nil {
			return nil // the command needs no queue
		}
		defer func() { _ = client.Close() }()
		queue = client
	}
	for _, role := range roles {
		of := b.Identity
		if role == register.RoleRecords {
			of = b.identityOfRecords
		}
		own, err := of(ctx)
		if err == nil {
			err = register.New(queue).Agree(ctx, role, own)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
