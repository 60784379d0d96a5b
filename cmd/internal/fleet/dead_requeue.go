package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/shell"
)

func deadRequeueCommand(env cli.Environment) *cobra.Command {
	var f deadFilter
	var all, asJSON bool
	c := &cobra.Command{
		Use:   "requeue {ID... | --all}",
		Short: "Send dead tasks again",
		Long: `Requeue puts dead tasks into their queue again: with the same ID, payload, charges and options, and with
all their retries. They leave asynq's archive, and their records stay readable for 30 days.

The command may be interrupted, and two may run at once: the same command completes it, no task is lost, and none is
enqueued twice. A task that is already in the queue again, for instance by asynq's own command, is only marked so.

Requests of a batch are skipped: "headway retry BATCH --failed" sends them again, so that the batch has their results.`,
		Example: `  headway dead requeue report-42 report-43
  headway dead requeue --all
  headway dead requeue --all --type mail --error "timeout" --since 24h`,
		Args: cobra.ArbitraryArgs,
	}
	f.flags(c)
	c.Flags().BoolVar(&all, "all", false, "all dead tasks that match the other flags")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	c.RunE = func(c *cobra.Command, ids []string) error {
		if all == (len(ids) > 0) {
			return cli.Usage("name tasks, or give --all: one of both; see \"headway dead requeue --help\"")
		}
		chosen, err := f.open(c.Context(), env)
		if err != nil {
			return err
		}
		defer chosen.close()
		var report deadtasks.Report
		if all {
			report, err = chosen.requeueAll(c.Context(), env)
		} else {
			report, err = chosen.requeue(c.Context(), ids)
		}
		if err != nil && report != (deadtasks.Report{}) {
			err = fmt.Errorf("%s: %w (run the same command again to continue)", requeuedText(report), err)
		}
		if err != nil {
			return err
		}
		return cli.Print(env.Out, asJSON, report, requeuedText(report))
	}
	return c
}

func (d *chosenDead) requeueAll(ctx context.Context, env cli.Environment) (deadtasks.Report, error) {
	total, err := d.store.Count(ctx, d.filter)
	if err != nil {
		return deadtasks.Report{}, err
	}
	bar := cli.NewProgress(env.Err, "requeued", total)
	defer bar.Close()
	return d.store.Requeue(ctx, d.client, d.filter, func(done deadtasks.Report) {
		bar.Set(done.Requeued + done.Present + done.OfBatches + done.Others)
	})
}

// requeue requeues single tasks.
func (d *chosenDead) requeue(ctx context.Context, ids []string) (total deadtasks.Report, err error) {
	f := d.filter
	err = eachID(ctx, ids, func(id string) error {
		f.ID = id
		report, fault := d.store.Requeue(ctx, d.client, f, nil)
		total.Requeued += report.Requeued
		total.Present += report.Present
		total.Others += report.Others
		switch {
		case fault != nil:
			return fault
		case report == (deadtasks.Report{}):
			return notDead(ctx, d.store, f, &total)
		case report.OfBatches > 0:
			return ofBatch(ctx, d.store, f)
		}
		return nil
	})
	return total, err
}

// eachID calls do for each ID. A fault of one does not stop the others, unless the records can't be reached.
func eachID(ctx context.Context, ids []string, do func(id string) error) error {
	var faults []error
	for _, id := range ids {
		err := do(id)
		if errors.Is(err, deadtasks.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// ofBatch names the command that sends a request of a batch again.
func ofBatch(ctx context.Context, store *deadtasks.Store, f deadtasks.Filter) error {
	found, err := recordsOf(ctx, store, f.Queue, f.ID)
	if err != nil {
		return err
	}
	return fmt.Errorf("task %s is a request of a batch: `%s` sends it again", f.ID,
		shell.Command("headway retry", found[0].Batch, "--failed"))
}

// notDead returns why nothing was requeued: a task that was requeued before is no fault.
func notDead(ctx context.Context, store *deadtasks.Store, f deadtasks.Filter, total *deadtasks.Report) error {
	found, err := recordsOf(ctx, store, f.Queue, f.ID)
	if err != nil {
		return err
	}
	for _, t := range found {
		if t.State == deadtasks.StateDead {
			return fmt.Errorf("task %s is dead, but does not match the flags: leave them out to requeue it", f.ID)
		}
	}
	total.Present += len(found)
	return nil
}

func requeuedText(r deadtasks.Report) string {
	text := cli.Plural(r.Requeued, "task", "tasks") + " requeued"
	if r.Present > 0 {
		text += fmt.Sprintf(", %d not dead", r.Present)
	}
	if r.Others > 0 {
		text += fmt.Sprintf(", %d running or requeued by another command", r.Others)
	}
	if r.OfBatches > 0 {
		text += fmt.Sprintf(", %s of batches skipped (`headway retry BATCH --failed` sends them)",
			cli.Plural(r.OfBatches, "request", "requests"))
	}
	return text
}

func deadDeleteCommand(env cli.Environment) *cobra.Command {
	var f deadFilter
	var all bool
	c := &cobra.Command{
		Use:   "delete {ID... | --all | --batch BATCH}",
		Short: "Delete dead tasks and their records",
		Long: `Delete removes the records of dead tasks, and the tasks from asynq's archive. This can't be undone:
export them first. The exit code is 1 if one of the tasks is not dead.`,
		Example: `  headway dead delete report-42
  headway dead delete --batch 3f2a9c0d1e4b5a67
  headway dead delete --all --type mail --since 24h`,
		Args: cobra.ArbitraryArgs,
	}
	f.flags(c)
	c.Flags().StringVar(&f.batch, "batch", "", "all dead requests of this `BATCH`, by its whole name")
	c.Flags().BoolVar(&all, "all", false, "all dead tasks that match the other flags")
	c.RunE = func(c *cobra.Command, ids []string) error {
		if many := all || f.batch != ""; many == (len(ids) > 0) {
			return cli.Usage("name tasks, or give --all or --batch: one of them; see \"headway dead delete --help\"")
		}
		if len(ids) > 0 && f.kind+f.text+f.since != "" {
			return cli.Usage("--type, --error and --since choose among all: leave out the IDs and give --all")
		}
		chosen, err := f.open(c.Context(), env)
		if err != nil {
			return err
		}
		defer chosen.close()
		var n int
		if len(ids) > 0 {
			n, err = chosen.delete(c.Context(), ids)
		} else {
			n, err = chosen.deleteAll(c.Context(), env)
		}
		if err != nil {
			return fmt.Errorf("%s deleted: %w", cli.Plural(n, "task", "tasks"), err)
		}
		_, err = fmt.Fprintf(env.Out, "%s deleted\n", cli.Plural(n, "task", "tasks"))
		return err
	}
	return c
}

// deleteAll deletes all dead tasks that the filter chooses. A task that is sent again meanwhile stays.
func (d *chosenDead) deleteAll(ctx context.Context, env cli.Environment) (n int, err error) {
	f := d.filter
	f.States = []deadtasks.State{deadtasks.StateDead}
	total, err := d.store.Count(ctx, f)
	if err != nil {
		return 0, err
	}
	bar := cli.NewProgress(env.Err, "deleted", total)
	defer bar.Close()
	err = each(d.store.List(ctx, f), 0, func(t deadtasks.Task) error {
		fault := d.store.Delete(ctx, d.client, t)
		if errors.Is(fault, deadtasks.ErrNotFound) {
			return nil
		}
		if fault == nil {
			n++
			bar.Set(n)
		}
		return fault
	})
	return n, err
}

// delete deletes the records of single tasks.
func (d *chosenDead) delete(ctx context.Context, ids []string) (n int, err error) {
	err = eachID(ctx, ids, func(id string) error {
		found, fault := recordsOf(ctx, d.store, d.filter.Queue, id)
		for _, t := range found {
			if fault = d.store.Delete(ctx, d.client, t); fault != nil {
				break
			}
			n++
		}
		return fault
	})
	return n, err
}
