package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/products/requests"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/shell"
)

// named returns the task that a name means if it is no ID: a batch, a request of a batch, or the beginning of an ID.
// Missing is the error that there is no such ID.
func (x explainer) named(ctx context.Context, t waitlist.Task, missing error) (waitlist.Task, error) {
	found, err := x.inBatch(ctx, t.ID)
	away := errors.Is(err, connect.ErrUnreachable) && !strings.Contains(t.ID, ":") // it may be the beginning of an ID
	if !away && !errors.Is(err, batches.ErrUnknownBatch) {
		return found, err
	}
	queue, id, err := asynqdb.New(x.client).Beginning(ctx, t.Queue, t.ID)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		err = missing
	case errors.Is(err, asynqdb.ErrSeveral):
		err = &cli.UsageError{Err: err}
	}
	return waitlist.Task{Queue: queue, ID: id}, err
}

// inBatch returns the task of a request that is named BATCH:CUSTOM_ID, or the first one of BATCH that has no result.
// The error matches batches.ErrUnknownBatch if no batch has that name.
func (x explainer) inBatch(ctx context.Context, name string) (waitlist.Task, error) {
	buckets, err := connect.Records(ctx, x.env.Getenv, x.client, x.env.Err)
	if err != nil {
		return waitlist.Task{}, err
	}
	defer func() { _ = buckets.Close(context.WithoutCancel(ctx)) }()
	store, err := buckets.Batches(ctx)
	if err != nil {
		return waitlist.Task{}, err
	}
	id, customID, one := strings.Cut(name, ":")
	b, err := store.Batch(ctx, id)
	if err != nil {
		return waitlist.Task{}, err
	}
	finder := requests.Finder{Store: store, Queue: x.client}
	if !one {
		ref, found, failed := finder.Next(ctx, b)
		if failed == nil && !found {
			failed = fmt.Errorf("no request of batch %s is in the queue: `%s` says why", b.ID,
				shell.Command("headway status", b.ID))
		}
		return waitlist.Task{Queue: b.Queue, ID: ref.TaskID()}, failed
	}
	ref, err := finder.Named(ctx, b, customID)
	if err != nil {
		return waitlist.Task{}, err
	}
	r, ended, err := store.Find(ctx, b.ID, ref.Line)
	if err == nil && ended {
		how, file := "was answered", "--out"
		if r.Failed() {
			how, file = "has failed", "--errors"
		}
		err = fmt.Errorf("request %q of batch %s %s %s: `%s` writes its result", customID, b.ID, how,
			cli.Day(r.Finished), shell.Command("headway results", b.ID, file, "-"))
	}
	return waitlist.Task{Queue: b.Queue, ID: ref.TaskID()}, err
}
