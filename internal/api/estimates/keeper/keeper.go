// Package keeper shares learned estimates in a fleet, through one small document for each limit and model.
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

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/documents"
)

const (
	// collection has the documents. called is their group, by the time at which they were written last.
	collection = "estimates"
	called     = "called"
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
var ErrUnavailable = documents.ErrUnavailable

// Keeper shares the counts of one Learner. It is safe for concurrent use, by any number of processes.
type Keeper struct {
	learner   *estimates.Learner
	documents documents.Collection
	every     time.Duration
	log       *slog.Logger
}

// New returns a Keeper of learner in a store. It sends nothing; see Load and Run. Run shares every so often, and logs
// the learned estimates now and then, at INFO.
func New(in documents.Store, learner *estimates.Learner, every time.Duration, log *slog.Logger) *Keeper {
	return &Keeper{learner: learner, documents: in.Collection(collection), every: every, log: log}
}

// EnsureIndexes makes sure of the indexes. Models without calls for 90 days are deleted.
func (k *Keeper) EnsureIndexes(ctx context.Context) error { return k.documents.EnsureIndexes(ctx) }

// Load reads the estimates of the fleet: at most estimates.Known models, the last called ones. It skips a malformed
// document and names it in the error.
func (k *Keeper) Load(ctx context.Context) error {
	var faults []error
	last := documents.InTimes(k.documents, documents.Times{Group: called, Newest: true})
	read := 0
	for d, err := range (documents.Reader{Collection: k.documents, Page: last}).All(ctx) {
		if err != nil {
			return fmt.Errorf("load estimates: %w", err)
		}
		if h, err := decode(d); err != nil {
			faults = append(faults, err)
		} else {
			k.learner.Set(h.key(), h.state())
		}
		if read++; read == estimates.Known {
			break
		}
	}
	return errors.Join(faults...)
}

// Share adds the counts since the last Share and reads the sums, in two round trips for each called model.
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
	number := k.learner.Generation(key)
	var sum estimates.State
	err := documents.UpdateOne(ctx, k.documents, documents.Change{
		Key: documentID(key), Apply: func(d *documents.Document) (bool, error) {
			h, err := decode(*d)
			if err != nil {
				return false, err
			}
			h.add(key, number, counts)
			if sum = h.state(); sum.Full() {
				h.next()
				sum.Next()
			}
			now := time.Now().UTC().Truncate(time.Millisecond)
			d.Group, d.At, d.Expires = called, now, now.Add(keptFor)
			d.Head, err = bson.Marshal(h)
			return true, err
		},
	})
	switch {
	case errors.Is(err, ErrMalformed):
		return err // these counts are lost, as all of this model are
	case err != nil:
		k.learner.GiveBack(key, counts)
		return fmt.Errorf("share the estimates of %s: %w", documentID(key), err)
	}
	k.learner.Set(key, sum)
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
