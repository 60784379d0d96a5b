package connect

import (
	"context"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/api/estimates/keeper"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/reservations"
)

// RecordsIn returns where batches, results, records of dead tasks and estimates are: in MongoDB if MONGODB_URI is set,
// else in the Redis of the queue.
func RecordsIn(getenv func(string) string) string {
	if getenv("MONGODB_URI") != "" {
		return "MongoDB"
	}
	return "Redis"
}

// Records connects to the records alone, for commands that need no buckets. All processes of a Redis have to keep their
// records in one database: otherwise the error, also that of Batches, Dead and Estimates, matches register.ErrSplit.
// Queue is as for Open; while no Redis answers, nothing is compared if the records are in MongoDB.
func Records(
	ctx context.Context, getenv func(string) string, queue redis.UniversalClient, notice io.Writer,
) (b *Buckets, err error) {
	if getenv("MONGODB_URI") != "" {
		if b, err = Mongo(ctx, getenv, notice); err == nil {
			err = b.agree(ctx, getenv, queue, register.RoleRecords)
		}
		if err != nil && b != nil {
			_ = b.Close(context.WithoutCancel(ctx))
		}
		return b, err
	}
	b = &Buckets{queue: queue}
	if queue == nil {
		if b.queue, err = Redis(ctx, getenv); err != nil {
			return nil, err
		}
		b.redis = b.queue
	}
	return b, nil
}

// Batches are the batches and their results. It makes sure of their indexes.
func (b *Buckets) Batches(ctx context.Context) (*batches.Store, error) {
	return indexed(ctx, b, func(in documents.Store) *batches.Store { return batches.New(in, batches.Options{}) })
}

// Dead are the records of dead tasks. It makes sure of their indexes.
func (b *Buckets) Dead(ctx context.Context) (*deadtasks.Store, error) {
	return indexed(ctx, b, func(in documents.Store) *deadtasks.Store {
		return deadtasks.New(in, deadtasks.Options{})
	})
}

// Estimates shares what learner learns. It makes sure of the index.
func (b *Buckets) Estimates(ctx context.Context, learner *estimates.Learner, log *slog.Logger) (*keeper.Keeper, error) {
	return indexed(ctx, b, func(in documents.Store) *keeper.Keeper {
		return keeper.New(in, learner, keeper.EveryDefault, log)
	})
}

// Documents are the collections of records. Their user makes sure of the indexes.
func (b *Buckets) Documents(ctx context.Context) (documents.Store, error) {
	return indexed(ctx, b, func(in documents.Store) unindexed { return unindexed{in} })
}

// unindexed are collections whose user makes sure of the indexes.
type unindexed struct{ documents.Store }

func (unindexed) EnsureIndexes(context.Context) error { return nil }

// indexed makes a store of records, and makes sure of its indexes.
func indexed[S interface {
	EnsureIndexes(ctx context.Context) error
}](
	ctx context.Context, b *Buckets, open func(documents.Store) S,
) (store S, err error) {
	if b.database == nil {
		own := reservations.Identity{ID: "redis", Place: "Redis"} // as that of buckets in Redis
		err = register.New(b.queue).Agree(ctx, register.RoleRecords, own)
		return open(redisdocs.New(b.queue)), err
	}
	store = open(mongodocs.New(b.database))
	if err := store.EnsureIndexes(ctx); err != nil {
		return store, &ServiceError{Setting: "MONGODB_URI", Kind: ErrUnreachable, Err: &briefError{err}}
	}
	return store, nil
}
