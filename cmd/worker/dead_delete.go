package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/cli"
)

func deadDeleteCommand(env cli.Environment) *cobra.Command {
	var queue string
	c := &cobra.Command{
		Use:   "delete ID...",
		Short: "Forget dead tasks for good",
		Long: `Delete removes the records of dead tasks, and the tasks from asynq's archive. Nothing of them is left: export them first. The exit code is 1 where one is not
dead.`,
		Example: `  worker dead delete report-42`,
		Args:    cli.Args(cobra.MinimumNArgs(1)),
	}
	c.Flags().StringVar(&queue, "queue", "", "only in this `queue`")
	c.RunE = func(c *cobra.Command, ids []string) error {
		store, client, done, err := openBoth(c.Context(), env)
		if err != nil {
			return err
		}
		defer done()
		n, err := deleteDead(c.Context(), store, deadtasks.NewRequeuer(store, client), queue, ids)
		if err != nil {
			return fmt.Errorf("%s deleted: %w", counted(n, "task"), err)
		}
		_, err = fmt.Fprintf(env.Out, "%s deleted\n", counted(n, "task"))
		return err
	}
	return c
}

// deleteDead deletes those that are dead. What can't be of one does not keep the others.
func deleteDead(ctx context.Context, store *deadtasks.Store, r *deadtasks.Requeuer, queue string, ids []string) (n int, err error) {
	var faults []error
	for _, id := range ids {
		found, err := recordsOf(ctx, store, queue, id)
		for _, t := range found {
			if err = r.Delete(ctx, t); err != nil {
				break
			}
			n++
		}
		if errors.Is(err, deadtasks.ErrUnavailable) || ctx.Err() != nil {
			return n, err
		}
		faults = append(faults, err)
	}
	return n, errors.Join(faults...)
}
