package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// errNoAnswer is why there is nothing to print.
var errNoAnswer = errors.New("there is no answer")

func answerCommand(env cli.Environment) *cobra.Command {
	var queue string
	c := &cobra.Command{
		Use:   "answer ID",
		Short: "Print the answer of a task that `enqueue one` has enqueued",
		Long: `Answer prints what came back for a task, as the API sent it (on a terminal control characters are shown as escapes, such as \x1b).
It is kept in Redis for as long as --keep of "enqueue one" says, a day if it says nothing.
The answers of a batch are written by "enqueue results".

The exit code is 1 where there is no answer, or none yet; the error says what became of the task.`,
		Example: `  enqueue answer 0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11
  enqueue answer "$ID" | jq -r '.choices[0].message.content'`,
		Args: cli.Named("the ID of a task"),
	}
	c.Flags().StringVar(&queue, "queue", "", "look in this `queue` only")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := answerOf(c.Context(), env, scheduler.Task{Queue: queue, ID: args[0]})
		if err != nil {
			return err
		}
		_, err = io.WriteString(cli.Data(env.Out), strings.TrimRight(text, "\n")+"\n")
		return err
	}
	return c
}

// answerOf is the answer that Redis keeps of a task, looked for in all queues where none is named.
func answerOf(ctx context.Context, env cli.Environment, t scheduler.Task) (string, error) {
	if ref, ok := tasks.ParseBatchRef(t.ID); ok {
		return "", &cli.UsageError{Err: fmt.Errorf("%s is line %d of batch %s: `enqueue results %s --out -` writes its answers", t.ID, ref.Line, ref.Batch, ref.Batch)}
	}
	client, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	if t.Queue == "" {
		s, failed := scheduler.New(client, nil, scheduler.Config{})
		if failed != nil {
			return "", failed
		}
		found, failed := s.Find(ctx, t.ID)
		if failed != nil {
			return "", orBatch(failed, t.ID)
		}
		if t = found[0]; len(found) > 1 {
			return "", &cli.UsageError{Err: fmt.Errorf("task %s is in several queues, such as %q and %q: name one with --queue", t.ID, t.Queue, found[1].Queue)}
		}
	}
	info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo(t.Queue, t.ID)
	if err != nil {
		return "", orBatch(fmt.Errorf("look for task %s in queue %q: %w", t.ID, t.Queue, err), t.ID)
	}
	return answerIn(info)
}

// batchName is what a batch is called, or the beginning of it. IDs of tasks that nobody has named are longer, with dashes.
var batchName = regexp.MustCompile("^[0-9a-f]{1,16}$")

// orBatch adds to why there is no task where its answers may be, if that may be a batch. Whether it is one, only MongoDB could tell.
func orBatch(err error, id string) error {
	missing := errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
	if !missing || !batchName.MatchString(id) {
		return err
	}
	return fmt.Errorf("%w; if %s is a batch, `enqueue results %s --out -` writes its answers", err, id, id)
}

// answerIn is the answer of a task, or what became of it.
func answerIn(info *asynq.TaskInfo) (string, error) {
	switch {
	case info.State == asynq.TaskStateCompleted && len(info.Result) > 0:
		return string(info.Result), nil
	case info.State == asynq.TaskStateCompleted:
		return "", fmt.Errorf("%w: task %s is done, and its handler left none", errNoAnswer, info.ID)
	case info.State == asynq.TaskStateArchived:
		return "", fmt.Errorf("%w: task %s has failed: %s", errNoAnswer, info.ID, info.LastErr)
	}
	return "", fmt.Errorf("%w yet: task %s has not ended (in asynq it is %s); `worker explain %s` says why", errNoAnswer, info.ID, info.State, info.ID)
}
