package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/period"
)

func deadCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "dead",
		Short: "List, export and requeue the tasks that failed for good",
		Long: `A task that fails for good (its retries are used up, its error is permanent, its workers died with it)
has a record: payload, charges, options, and the errors of its attempts. Records of dead tasks are kept until
you requeue or delete them, however many there are. Records of other tasks expire after 30 days. They do not depend on
asynq's archive, which keeps only the last 10 000 tasks.

Requests of a batch are listed too; "headway retry BATCH --failed" sends them again.`,
		Example: `  headway dead list --since 24h
  headway dead show report-42
  headway dead export --out dead.jsonl
  headway dead requeue --all --type mail --error "connection refused"`,
	}
	c.AddCommand(deadListCommand(env), deadShowCommand(env), deadExportCommand(env), deadRequeueCommand(env),
		deadDeleteCommand(env))
	return c
}

// deadFilter are the flags that choose records.
type deadFilter struct {
	queue, kind, text, since string
	batch                    string
	everyState               bool // else the dead alone
}

func (f *deadFilter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.queue, "queue", "", "only tasks of this `queue`")
	c.Flags().StringVar(&f.kind, "type", "", "only tasks of this `type`")
	c.Flags().StringVar(&f.text, "error", "", "only tasks whose last error contains this `text`")
	c.Flags().StringVar(&f.since, "since", "",
		"only tasks that died since then: a `time` like 24h (ago), 2026-05-01 or 2026-05-01T12:00:00Z")
}

// statesFlag is for commands that read; verb is what they do.
func (f *deadFilter) statesFlag(c *cobra.Command, verb string) {
	c.Flags().BoolVar(&f.everyState, "all-states", false, verb+" tasks in all states, not only dead ones")
}

func (f *deadFilter) filter() (deadtasks.Filter, error) {
	since, err := sinceOf(f.since, time.Now())
	return deadtasks.Filter{
		Queue: f.queue, Type: f.kind, Batch: f.batch, Error: f.text, Since: since, AnyState: f.everyState,
	}, err
}

// sinceOf reads a duration before now, a day (UTC), or a time.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := period.Parse(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, cli.Usage("--since %q is neither a time before now like 24h or 7d nor a time like 2026-05-01 or "+
		"2026-05-01T12:00:00Z", text)
}

// openDead connects to the records. Done ends the connection. Queue may be nil.
func openDead(
	ctx context.Context, env cli.Environment, queue redis.UniversalClient,
) (store *deadtasks.Store, done func(), err error) {
	buckets, err := connect.Records(ctx, env.Getenv, queue, env.Err)
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

// chosenDead are the dead tasks that the flags choose, with what changes them.
type chosenDead struct {
	store  *deadtasks.Store
	client redis.UniversalClient
	filter deadtasks.Filter
	close  func()
}

// open connects to the records and to the queue.
func (f *deadFilter) open(ctx context.Context, env cli.Environment) (*chosenDead, error) {
	filter, err := f.filter()
	if err != nil {
		return nil, err
	}
	client, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return nil, err
	}
	store, done, err := openDead(ctx, env, client)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &chosenDead{store: store, client: client, filter: filter, close: func() {
		done()
		_ = client.Close()
	}}, nil
}

// recordsOf are the records of a task, whatever their state; the error is that there is none.
func recordsOf(ctx context.Context, store *deadtasks.Store, queue, id string) (found []deadtasks.Task, err error) {
	found, err = explained.Records(ctx, store, queue, id)
	if err != nil && (len(found) == 0 || !errors.Is(err, deadtasks.ErrMalformed)) {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf(
			"%w of task %s: it did not fail, its record was deleted, or it ran again more than 30 days ago",
			deadtasks.ErrNotFound, id)
	}
	return found, nil
}

func deadExportCommand(env cli.Environment) *cobra.Command {
	var f deadFilter
	var out string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the dead tasks as JSON lines, with their payloads",
		Long: `Export writes one JSON object a line: ID, queue, type, when and why it died, the errors of its attempts,
options, headers (the charges are one of them) and payload; a payload that is no JSON is in payload_base64. It takes as
much memory for a million tasks as for one.

A file appears under its name when it is complete.`,
		Example: `  headway dead export --out dead.jsonl
  headway dead export --type mail | jq -r .payload.to`,
	}
	f.flags(c)
	c.Flags().StringVar(&out, "out", "-", "write to this `file`; - is the standard output")
	f.statesFlag(c, "export")
	c.RunE = func(c *cobra.Command, _ []string) error {
		chosen, err := f.filter()
		if err != nil {
			return err
		}
		store, done, err := openDead(c.Context(), env, nil)
		if err != nil {
			return err
		}
		defer done()
		return exportDeadTo(c.Context(), env, out, store, chosen)
	}
	return c
}

// exportDeadTo writes a file, or to standard output. A file has a progress bar and a last line.
func exportDeadTo(
	ctx context.Context, env cli.Environment, name string, store *deadtasks.Store, f deadtasks.Filter,
) error {
	file, err := cli.CreateFile(name, cli.Data(env.Out))
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	bar := &cli.Progress{}
	if name != "-" {
		total, failed := store.Count(ctx, f)
		if failed != nil {
			return errors.Join(failed, file.Drop())
		}
		bar = cli.NewProgress(env.Err, "exported", total)
	}
	buffer := bufio.NewWriter(file)
	f.Payloads = true
	n, err := writeDead(encoderTo(buffer), store.List(ctx, f), 0, wholeRowOf, bar.Set)
	bar.Close()
	failed := buffer.Flush()
	if failed != nil || err != nil && !errors.Is(err, deadtasks.ErrMalformed) {
		return errors.Join(err, failed, file.Drop())
	}
	if failed = file.Keep(); failed == nil && name != "-" {
		_, failed = fmt.Fprintf(env.Err, "%s in %s\n", cli.Plural(n, "task", "tasks"), name)
	}
	return errors.Join(failed, err)
}

// writeDead writes tasks as JSON lines; see each.
func writeDead(
	out *json.Encoder, all iter.Seq2[deadtasks.Task, error], most int, row func(deadtasks.Task) deadRow,
	progress func(n int),
) (n int, err error) {
	err = each(all, most, func(t deadtasks.Task) error {
		n++
		progress(n)
		return out.Encode(row(t))
	})
	return n, err
}

// each visits tasks until a visit fails, at most that many; zero is no bound. Records that can't be read do not keep
// others back: if the error matches ErrMalformed, only they are left out.
func each(all iter.Seq2[deadtasks.Task, error], most int, visit func(deadtasks.Task) error) error {
	visited, broken := 0, 0
	var first error
	for t, err := range all {
		if errors.Is(err, deadtasks.ErrMalformed) {
			if broken++; first == nil {
				first = err
			}
			continue
		}
		if err == nil {
			err = visit(t)
		}
		if err != nil {
			return err
		}
		if visited++; visited == most {
			break
		}
	}
	if broken > 0 {
		return fmt.Errorf("left out %s that can't be read: %w", cli.Plural(broken, "record", "records"), first)
	}
	return nil
}
