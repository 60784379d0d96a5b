// Package keeper shares learned estimates in a fleet, through one small document in MongoDB for each limit and model.
// Every few seconds, each process adds its counts and reads the sum. A killed process loses the counts of its last
// seconds.
package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/estimates"
	"github.com/headway-go/headway/internal/mongoerr"
)

const (
	// CollectionDefault is the default collection of estimates.
	CollectionDefault = "headway_estimates"
	// EveryDefault is how often a process shares its counts.
	EveryDefault = 5 * time.Second

	// reportEvery is how often Run logs the learned estimates.
	reportEvery = 5 * time.Minute
	// keptFor is how long the document of a model without calls is stored.
	keptFor = 90 * 24 * time.Hour
	// farewell is the timeout of the last Share of a process.
	farewell = 5 * time.Second
)

// ErrUnavailable means that the database did not answer. No counts are lost: the next Share sends them.
var ErrUnavailable = errors.New("keeper: the database is not available")

// Keeper shares the counts of one Learner. It is safe for concurrent use, by any number of processes.
type Keeper struct {
	learner   *estimates.Learner
	documents *mongo.Collection
	every     time.Duration
	log       *slog.Logger
}

// New returns a Keeper of learner in db. It sends nothing; see Load and Run. Run shares every so often, and logs the
// learned estimates now and then, at INFO. The caller disconnects the client.
func New(db *mongo.Database, learner *estimates.Learner, every time.Duration, log *slog.Logger) *Keeper {
	return &Keeper{learner: learner, documents: db.Collection(CollectionDefault), every: every, log: log}
}

// EnsureIndexes creates the index that deletes models without calls for 90 days.
func (k *Keeper) EnsureIndexes(ctx context.Context) error {
	_, err := k.documents.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.M{fieldAt: 1}, Options: options.Index().SetExpireAfterSeconds(int32(keptFor.Seconds())),
	})
	if err != nil {
		return fmt.Errorf("%w: make the index: %w", ErrUnavailable, err)
	}
	return nil
}

// Load reads the estimates of the fleet: at most estimates.Known models, the last called ones. It skips a malformed
// document and names it in the error.
func (k *Keeper) Load(ctx context.Context) error {
	cursor, err := k.documents.Find(ctx, bson.D{},
		options.Find().SetSort(bson.M{fieldAt: -1}).SetLimit(estimates.Known))
	var found []bson.Raw
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return fmt.Errorf("%w: load estimates: %w", ErrUnavailable, err)
	}
	var faults []error
	for _, raw := range found {
		if key, state, err := decode(raw); err != nil {
			faults = append(faults, err)
		} else {
			k.learner.Set(key, state)
		}
	}
	return errors.Join(faults...)
}

// Share adds the counts since the last Share and reads the sums, in one round trip for each called model.
func (k *Keeper) Share(ctx context.Context) error {
	var faults []error
	for key, counts := range k.learner.Take() {
		if err := k.share(ctx, key, counts); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func (k *Keeper) share(ctx context.Context, key estimates.Key, counts *estimates.Counts) error {
	var found bson.Raw
	number := k.learner.Generation(key)
	err := mongoerr.Patiently(func() (err error) {
		o := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
		found, err = k.documents.FindOneAndUpdate(ctx, bson.M{"_id": documentID(key)}, addition(key, number, counts),
			o).Raw()
		return err
	})
	if err != nil {
		k.learner.GiveBack(key, counts)
		return fmt.Errorf("%w: share the estimates of %s: %w", ErrUnavailable, documentID(key), err)
	}
	_, state, err := decode(found)
	if err != nil {
		return err
	}
	if state.Full() {
		if err := k.turn(ctx, key, state.Number, found); err != nil {
			return err
		}
		state.Next()
	}
	k.learner.Set(key, state)
	return nil
}

// turn begins a generation. If another process has begun it, nothing changes.
func (k *Keeper) turn(ctx context.Context, key estimates.Key, number int64, found bson.Raw) error {
	err := mongoerr.Patiently(func() error {
		_, err := k.documents.UpdateOne(ctx, bson.M{"_id": documentID(key), fieldNumber: number}, next(number, found))
		return err
	})
	if err != nil {
		return fmt.Errorf("%w: begin a generation of the estimates of %s: %w", ErrUnavailable, documentID(key), err)
	}
	return nil
}

// Run loads the estimates, and then shares them until ctx ends, and once more. It logs the first of consecutive
// errors of the database. Errors lose no counts.
func (k *Keeper) Run(ctx context.Context) {
	_ = k.logError(ctx, k.Load(ctx), false)
	ticker := time.NewTicker(k.every)
	defer ticker.Stop()
	told, failing := time.Now(), false
	for {
		select {
		case <-ticker.C:
			failing = k.logError(ctx, k.Share(ctx), failing)
			if time.Since(told) >= reportEvery {
				told = time.Now()
				failing = k.logError(ctx, k.Load(ctx), failing) // models that only other processes call
				k.report(ctx)
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			_ = k.logError(last, k.Share(last), failing)
			k.report(last)
			return
		}
	}
}

// logError logs the first of consecutive errors.
func (k *Keeper) logError(ctx context.Context, err error, failing bool) bool {
	if err != nil && !failing && ctx.Err() == nil {
		k.log.WarnContext(ctx, "estimates are not shared", slog.Any("error", err))
	}
	return err != nil
}

// report logs the learned estimates.
func (k *Keeper) report(ctx context.Context) {
	for _, l := range k.learner.Learned() {
		k.log.InfoContext(ctx, "estimates have learned",
			slog.String("limit", l.Limit), slog.String("model", l.Model), slog.Int64("requests", l.N),
			slog.Float64("input_ratio", l.Input), slog.Float64("output_ratio", l.Output),
			slog.Float64("open_ratio", l.Open), slog.Float64("reserved_to_used_p10", l.ErrorP10),
			slog.Float64("reserved_to_used_p50", l.ErrorP50), slog.Float64("reserved_to_used_p90", l.ErrorP90),
			slog.Float64("reserved", l.Reserved), slog.Float64("used", l.Used))
	}
}
