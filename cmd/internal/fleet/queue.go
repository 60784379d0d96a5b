package fleet

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/shell"
)

func pauseCommand(env cli.Environment) *cobra.Command {
	return queueCommand(env, true, &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Let no task of a queue start",
		Long: `Pause lets no task of a queue start until "headway unpause". Running tasks go on. Waiting tasks keep their
places, and tasks of other queues start before them.`,
		Example: "  headway pause default",
	})
}

func unpauseCommand(env cli.Environment) *cobra.Command {
	return queueCommand(env, false, &cobra.Command{
		Use:     "unpause QUEUE",
		Short:   "Let the tasks of a paused queue start again",
		Long:    `Unpause ends a pause of "headway pause" or of asynq's own tool.`,
		Example: "  headway unpause default",
	})
}

// queueCommand is a command that pauses or resumes a queue.
func queueCommand(env cli.Environment, pause bool, c *cobra.Command) *cobra.Command {
	c.Args = cli.Named("a queue")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := connect.Redis(c.Context(), env.Getenv)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		changed, err := state.SetPaused(c.Context(), client, args[0], pause)
		if errors.Is(err, state.ErrNoQueue) {
			return &cli.UsageError{Err: err}
		}
		if err != nil {
			return err
		}
		text := "is not paused any more: its tasks may start"
		if !changed {
			text = "was not paused"
		}
		if pause {
			text = "is paused: `" + shell.Command("headway unpause", args[0]) + "` resumes it"
		}
		_, err = fmt.Fprintf(env.Out, "queue %s %s\n", args[0], text)
		return err
	}
	return c
}

func deleteCommand(env cli.Environment) *cobra.Command {
	var file, queue string
	c := &cobra.Command{
		Use:   "delete TASK",
		Short: "Delete a task that waits",
		Long: `Delete removes a task that neither runs nor has ended, and releases its reservations: the tasks behind it start
sooner. "headway cancel" does so for the tasks of a batch, which can then be enqueued again.

The exit code is 1 if there is no such task, or if it runs or has ended.`,
		Example: `  headway delete 0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11
  headway delete report-42 --queue batch`,
		Args: cli.Named("the ID of a task"),
	}
	configFlag(c, &file)
	c.Flags().StringVar(&queue, "queue", "", "look in this `queue` only")
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := session.Load(c.Context(), env, file, session.Needs{})
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		queues, err := asynqdb.New(s.Queue).QueuesOf(c.Context(), queue, args[0])
		if err != nil {
			return err
		}
		deleted := 0
		var faults []error
		for _, in := range queues {
			tasks, err := s.Scheduler.Delete(c.Context(), in, args[0])
			if faults = append(faults, err); len(tasks) > 0 && tasks[0] != nil {
				deleted++
				fmt.Fprintf(env.Out, "task %s of queue %s is deleted\n", args[0], in)
			}
		}
		if err := errors.Join(faults...); err != nil || deleted > 0 {
			return err
		}
		return fmt.Errorf("task %s does not wait: `headway explain` shows its state", args[0])
	}
	return c
}
