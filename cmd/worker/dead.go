package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
)

func deadCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "dead",
		Short: "List, export and requeue the tasks that failed for good",
		Long: `A task that fails for good (its retries are used up, its error is permanent, its workers died with it) has a record in MongoDB: payload, charges,
options, and the errors of its attempts. Records of dead tasks are kept until you requeue or delete them, however many there are; those of others go after
30 days. asynq's archive, which forgets all but the last 10 000, is not needed for it.

Requests of a batch are listed too; "enqueue retry BATCH --failed" sends them again.`,
		Example: `  worker dead list --since 24h
  worker dead show report-42
  worker dead export --out dead.jsonl
  worker dead requeue --all --type mail --error "connection refused"`,
		Args: cli.Args(cobra.NoArgs),
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(deadListCommand(env), deadShowCommand(env), deadExportCommand(env), deadRequeueCommand(env), deadDeleteCommand(env))
	return c
}

// deadFilter are the flags that choose records.
type deadFilter struct {
	queue, kind, text, since string
}

func (f *deadFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.queue, "queue", "", "only those of this `queue`")
	c.Flags().StringVar(&f.kind, "type", "", "only those of this `type` of task")
	c.Flags().StringVar(&f.text, "error", "", "only those whose last error has this `text` in it")
	c.Flags().StringVar(&f.since, "since", "", "only those that died since then: a `time` like 24h (ago), 2026-05-01 or 2026-05-01T12:00:00Z")
}

func (f *deadFilter) filter() (deadtasks.Filter, error) {
	since, err := sinceOf(f.since, time.Now())
	return deadtasks.Filter{Queue: f.queue, Type: f.kind, Error: f.text, Since: since}, err
}

// sinceOf reads a duration before now, a day (UTC), or a time.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &cli.UsageError{Err: fmt.Errorf("--since %q is neither a time before now like 24h nor a time like 2026-05-01 or 2026-05-01T12:00:00Z", text)}
}

// openDead connects to the records. Done ends the connection.
func openDead(ctx context.Context, env cli.Environment) (store *deadtasks.Store, done func(), err error) {
	buckets, err := connect.Mongo(ctx, env.Getenv, env.Err)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = buckets.Close(context.WithoutCancel(ctx)) }
	if store, err = buckets.Dead(ctx); err != nil {
		done()
		return nil, nil, err
	}
	return store, done, nil
}

// openBoth connects to the records and to the queue.
func openBoth(ctx context.Context, env cli.Environment) (*deadtasks.Store, redis.UniversalClient, func(), error) {
	client, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return nil, nil, nil, err
	}
	store, done, err := openDead(ctx, env)
	if err != nil {
		return nil, nil, nil, errors.Join(err, client.Close())
	}
	return store, client, func() {
		done()
		_ = client.Close()
	}, nil
}

// recordsOf are the records of a task, whatever their state; the error is that there is none.
func recordsOf(ctx context.Context, store *deadtasks.Store, queue, id string) (found []deadtasks.Task, err error) {
	for t, err := range store.Whole(ctx, deadtasks.Filter{ID: id, Queue: queue, States: deadtasks.EveryState()}) {
		if err != nil {
			return nil, err
		}
		found = append(found, t)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w of task %s: it did not fail, or that is more than 30 days ago", deadtasks.ErrNotFound, id)
	}
	return found, nil
}
