package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/scheduler"
)

func explainCommand(env cli.Environment) *cobra.Command {
	var asJSON bool
	var file, queue string
	c := &cobra.Command{
		Use:   "explain ID|BATCH|BATCH:CUSTOM_ID",
		Short: "Explain why a task does not run, since when, and until when",
		Long: `Explain answers in one sentence why the task does not run. Below it shows what the task waits for: its
limit, its position in the waitlist and of how many, the tokens ahead of it, its expected start, its charges, and the
bucket. It changes nothing. A task ID that is in several queues is explained for each.

The beginning of an ID is enough where it is unique. BATCH:CUSTOM_ID is one request of a batch, and BATCH the first one
that has no result.

The file is needed only to show the bucket; without one, or while MongoDB does not answer, the rest is shown.
The exit code is 1 where there is no such task.`,
		Example: `  headway explain 0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11
  headway explain 3f2a:request-17
  headway explain report-42 --queue batch --json | jq -r '.[0].summary'`,
		Args: cli.Named("the ID of a task, BATCH or BATCH:CUSTOM_ID"),
	}
	configFlag(c, &file)
	c.Flags().StringVar(&queue, "queue", "", "look in this `queue` only")
	c.Flags().BoolVar(&asJSON, "json", false,
		"print a JSON list, with one object for each queue in which there is such a task")
	c.RunE = func(c *cobra.Command, args []string) error {
		if strings.TrimSpace(args[0]) == "" {
			return cli.Usage("the ID of the task is empty; name one, as it was given when the task was enqueued")
		}
		settings, err := config.Load(file)
		if err != nil && (!errors.Is(err, os.ErrNotExist) || c.Flags().Changed("config")) {
			return err
		}
		client, err := connect.Redis(c.Context(), env.Getenv)
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		x := explainer{env: env, client: client, settings: settings, file: file}
		found, err := x.meant(c.Context(), waitlist.Task{Queue: queue, ID: args[0]})
		if errors.Is(err, asynq.ErrTaskNotFound) {
			return fmt.Errorf("%w; `%s` has its record, should it have failed for good; "+
				"batches are shown by `headway status`", err, shell.Command("headway dead show", args[0]))
		}
		if err != nil {
			return err
		}
		if asJSON {
			return cli.JSON(env.Out).Encode(found)
		}
		for i, t := range found {
			if i > 0 {
				fmt.Fprintln(env.Out)
			}
			printExplained(screenOf(env), t)
		}
		return nil
	}
	return c
}

// explainer explains tasks.
type explainer struct {
	env      cli.Environment
	client   redis.UniversalClient
	settings config.Config
	file     string
}

// meant explains the task with this ID. If there is none, it explains the task that the name means.
func (x explainer) meant(ctx context.Context, task waitlist.Task) ([]explained.Task, error) {
	found, err := x.explain(ctx, task)
	if !errors.Is(err, asynq.ErrTaskNotFound) {
		return found, err
	}
	if task, err = x.named(ctx, task, err); err != nil {
		return nil, err
	}
	return x.explain(ctx, task)
}

// printExplained shows the sentence, then what it rests on, then the bucket.
func printExplained(s screen, t explained.Task) {
	fmt.Fprintf(s, "%s\n\n", s.title(cli.Line(t.Summary)))
	s.table(t.Rows())
	if t.Bucket != nil {
		fmt.Fprintln(s)
		printBucket(s, *t.Bucket)
	}
}

// explain explains the task, in all queues where none is named. MongoDB is asked only for a task that waits for a
// bucket.
func (x explainer) explain(ctx context.Context, task waitlist.Task) ([]explained.Task, error) {
	s, err := scheduler.New(x.client, nil, scheduler.Config{})
	if err != nil {
		return nil, err
	}
	queues, err := asynqdb.New(x.client).QueuesOf(ctx, task.Queue, task.ID)
	if err != nil {
		return nil, err
	}
	var all []explained.Task
	for _, queue := range queues {
		t := waitlist.Task{Queue: queue, ID: task.ID}
		e, err := s.Explain(ctx, t.Queue, t.ID)
		if err != nil {
			return nil, err
		}
		one := explained.New(e)
		if e.Waits != nil && e.Reason != scheduler.ReasonStore {
			if one, err = x.bucket(ctx, t, one); err != nil {
				return nil, err
			}
		}
		if one.SentAgain, err = sentAgain(ctx, s, t); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// sentAgain returns the newest task of the same request of a batch in the queue; empty if there is none.
func sentAgain(ctx context.Context, s *scheduler.Scheduler, t waitlist.Task) (newest string, err error) {
	ref, ok := batchref.Parse(t.ID)
	for ok {
		ref.Round++
		_, err = s.Explain(ctx, t.Queue, ref.TaskID())
		if errors.Is(err, asynq.ErrTaskNotFound) {
			return newest, nil
		}
		if err != nil {
			return "", err
		}
		newest = ref.TaskID()
	}
	return "", nil
}

// bucket explains once more, with the bucket.
func (x explainer) bucket(ctx context.Context, t waitlist.Task, one explained.Task) (explained.Task, error) {
	s, err := session.Open(ctx, x.env, x.settings, session.Needs{Queue: x.client, File: x.file})
	if err != nil {
		one.Problem = err.Error()
		return one, nil // shown beside what is known
	}
	defer s.Close(ctx)
	return explained.Read(ctx, s.Reader(), t.Queue, t.ID)
}
