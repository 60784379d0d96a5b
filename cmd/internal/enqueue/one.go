package enqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/internal/text/filekind"
	"github.com/headway-go/headway/internal/text/shell"
)

// enqueued is what `headway enqueue --json` prints.
type enqueued struct {
	ID    string    `json:"id"`
	Queue string    `json:"queue"`
	State string    `json:"state"`
	Next  time.Time `json:"next_process_at,omitzero"`
}

func oneCommand(env cli.Environment) *cobra.Command {
	var t target
	var model, body, unique string
	var maxTokens int
	var asJSON, wait bool
	c := &cobra.Command{
		Use:     "enqueue [PROMPT]",
		Aliases: []string{"one"},
		Short:   "Enqueue one chat request, now or for later",
		Long: `Enqueue puts one chat request into the queue: a prompt ("-" reads it from standard input), or a whole request
body as JSON. It prints the task's ID: "headway answer ID" prints what came back, "headway explain ID" says why the task
waits, and asynq's tools show it. With --wait it prints the answer itself: Ctrl-C ends the wait, and the task goes on.

With --unique the request is refused, with exit code 1, while another one with that key waits or runs in the queue: the
error names its task.`,
		Example: `  headway enqueue "Why is the sky blue?" --limit openai --max-tokens 200
  headway answer 0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11
  headway enqueue "Why is the sky blue?" --limit openai --wait
  headway enqueue "Hi" --model llama3.2:3b     # of a provider in headway.yaml
  headway enqueue "Good morning" --limit openai --in 8h
  headway enqueue "Hi" --limit tenants:acme --limit openai
  headway enqueue "Sum up report 7" --limit openai --unique report-7
  headway enqueue --body "$(cat request.json)" --limit openai`,
		Args: cli.Named("[PROMPT]"),
	}
	t.flags(c, 24*time.Hour, " with its answer; 0 for not at all")
	c.Flags().StringVar(&model, "model", "gpt-4o-mini", "the model")
	c.Flags().IntVar(&maxTokens, "max-tokens", 500,
		"the most tokens that the answer may have, tokens of reasoning included; 0 sends no bound")
	c.Flags().StringVar(&unique, "unique", "", "refuse the request while another one with this `KEY` waits or runs")
	c.Flags().StringVar(&body, "body", "", "the whole request as JSON, instead of a prompt")
	c.Flags().BoolVar(&asJSON, "json", false, "print the task as JSON")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the task has ended, and print the text of the answer")
	c.RunE = func(c *cobra.Command, args []string) error {
		if wait && asJSON {
			return cli.Usage("--wait prints the answer, and --json the task: leave one out")
		}
		if body != "" && (c.Flags().Changed("model") || c.Flags().Changed("max-tokens")) {
			return cli.Usage("--body holds the whole request; it excludes --model and --max-tokens")
		}
		if err := readPrompt(args, env.In); err != nil {
			return err
		}
		if err := errors.Join(checkText("the prompt", strings.Join(args, "")), checkText("--body", body),
			checkText("--model", model), checkText("--unique", unique)); err != nil {
			return err
		}
		request, err := requestOf(args, body, model, maxTokens)
		if err != nil {
			return err
		}
		if c.Flags().Changed("unique") {
			if strings.TrimSpace(unique) == "" || len(unique) > envelope.UniqueLongest {
				return cli.Usage("--unique: a key has 1 to %d bytes, not all blank", envelope.UniqueLongest)
			}
		}
		return enqueueOne(c, env, &t, request, printed{asJSON: asJSON, wait: wait}, unique)
	}
	return c
}

// readPrompt replaces a prompt "-" by standard input.
func readPrompt(args []string, in io.Reader) error {
	if len(args) != 1 || args[0] != "-" {
		return nil
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	args[0] = strings.TrimSpace(strings.TrimPrefix(string(text), "\ufeff"))
	return nil
}

// requestOf is the body of the chat request that the command line describes.
func requestOf(args []string, body, model string, maxTokens int) (json.RawMessage, error) {
	switch {
	case body != "" && len(args) > 0, body == "" && len(args) == 0:
		return nil, cli.Usage("give either a PROMPT or --body")
	case body != "":
		return json.RawMessage(body), nil
	case strings.TrimSpace(args[0]) == "":
		return nil, cli.Usage("the prompt is empty")
	case maxTokens < 0:
		return nil, cli.Usage("--max-tokens %d must not be negative; 0 sends no bound", maxTokens)
	}
	request := map[string]any{
		"model": model, "messages": []map[string]string{{"role": "user", "content": args[0]}},
	}
	if maxTokens > 0 {
		request[openai.BoundOf(model)] = maxTokens
	}
	return json.Marshal(request)
}

// checkText returns what is wrong with a text that is sent. JSON would have other characters in place of what is not
// UTF-8.
func checkText(what, text string) error {
	at := filekind.Invalid([]byte(text))
	kind := filekind.Of([]byte(text))
	switch {
	case kind.Name != "":
		return cli.Usage("%s is %s: %s", what, kind.Name, kind.Advice)
	case at >= 0:
		return cli.Usage("%s is not valid UTF-8, at byte %d", what, at+1)
	}
	return nil
}

// printed is what a command prints of its task.
type printed struct{ asJSON, wait bool }

func enqueueOne(
	c *cobra.Command, env cli.Environment, t *target, request json.RawMessage, p printed, unique string,
) error {
	options, err := t.options(c.Context(), env)
	if err != nil {
		return err
	}
	if p.wait && options.Retention <= 0 {
		return cli.Usage("--wait prints the answer, and --keep 0 keeps none: leave one out")
	}
	options.Unique = unique
	asked, err := openai.Assess(openai.Chat, request)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	from, err := t.load(c.Context(), env, asked.Model)
	if err != nil {
		return err
	}
	task, err := from.task(batch.Line{URL: openai.Chat, Body: request})
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	from.warnOfQueue(env)
	s, err := session.Open(c.Context(), env, from.config, session.Needs{Sends: true, NoBuckets: true})
	if err != nil {
		return err
	}
	defer s.Close(c.Context())
	info, err := s.Scheduler.Enqueue(c.Context(), task.args, options)
	if err != nil {
		return err
	}
	if p.wait {
		return awaitAnswer(c.Context(), env, waitlist.Task{Queue: info.Queue, ID: info.ID})
	}
	return cli.Print(env.Out, p.asJSON, enqueued{
		ID: info.ID, Queue: info.Queue, State: info.State.String(),
		Next: info.NextProcessAt,
	}, info.ID)
}

// answerEvery is how often --wait looks for the answer.
const answerEvery = 200 * time.Millisecond

// awaitAnswer prints the answer of a task when it has ended; in JSON where it has no text of a model.
func awaitAnswer(ctx context.Context, env cli.Environment, t waitlist.Task) error {
	client, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	for {
		info, err := infoOf(ctx, client, t)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return err
		case info.State == asynq.TaskStateCompleted, info.State == asynq.TaskStateArchived:
			text, err := answerIn(info)
			if err != nil {
				return err
			}
			if written, none := writtenIn(text); none == nil {
				text = written
			}
			_, err = io.WriteString(cli.Data(env.Out), strings.TrimRight(text, "\n")+"\n")
			return err
		}
		if pause.For(ctx, answerEvery) != nil {
			fmt.Fprintf(env.Err, "task %s goes on: `%s` prints its answer, `%s` ends it\n", t.ID,
				shell.Command("headway answer", t.ID), shell.Command("headway delete", t.ID))
			return ctx.Err()
		}
	}
}

func answerCommand(env cli.Environment) *cobra.Command {
	var queue string
	var asText bool
	c := &cobra.Command{
		Use:   "answer ID",
		Short: "Print the answer of a task that `headway enqueue` has enqueued",
		Long: `Answer prints what came back for a task, as the API sent it (on a terminal control characters are shown
as escapes, such as \x1b). It is kept in Redis for as long as --keep of "headway enqueue" says, a day if it says
nothing. The answers of a batch are written by "headway results".

The beginning of an ID is enough where it is unique. --text prints only the text that the model wrote.

The exit code is 1 where there is no answer, or none yet; the error says what became of the task.`,
		Example: `  headway answer 0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11
  headway answer "$ID" --text`,
		Args: cli.Named("the ID of a task"),
	}
	c.Flags().StringVar(&queue, "queue", "", "look in this `queue` only")
	c.Flags().BoolVar(&asText, "text", false, "print the text of the answer alone")
	c.RunE = func(c *cobra.Command, args []string) error {
		text, err := answerOf(c.Context(), env, waitlist.Task{Queue: queue, ID: args[0]})
		if err != nil {
			return err
		}
		if asText {
			if text, err = writtenIn(text); err != nil {
				return fmt.Errorf("task %s: %w", args[0], err)
			}
		}
		_, err = io.WriteString(cli.Data(env.Out), strings.TrimRight(text, "\n")+"\n")
		return err
	}
	return c
}

// writtenIn returns what the model wrote.
func writtenIn(answer string) (string, error) {
	if text := openai.Written([]byte(answer)); text != "" {
		return text, nil
	}
	return "", errors.New("the answer has no text of a model; without --text it is printed as it came")
}

// answerOf is the answer that Redis keeps of a task, looked for in all queues where none is named. The beginning of its
// ID is enough.
func answerOf(ctx context.Context, env cli.Environment, t waitlist.Task) (string, error) {
	if err := notOfBatch(t.ID); err != nil {
		return "", err
	}
	client, err := connect.Redis(ctx, env.Getenv)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	info, err := infoOf(ctx, client, t)
	if asynqdb.Gone(err) {
		queue, id, failed := asynqdb.New(client).Beginning(ctx, t.Queue, t.ID)
		switch {
		case errors.Is(failed, asynqdb.ErrSeveral):
			return "", &cli.UsageError{Err: orBatch(failed, t.ID)}
		case asynqdb.Gone(failed):
			return "", orBatch(err, t.ID)
		case failed != nil:
			return "", failed
		}
		if failed = notOfBatch(id); failed != nil {
			return "", failed
		}
		info, err = infoOf(ctx, client, waitlist.Task{Queue: queue, ID: id})
	}
	if err != nil {
		return "", err
	}
	return answerIn(info)
}

// notOfBatch is the error that the ID is that of a request of a batch.
func notOfBatch(id string) error {
	ref, ok := batchref.Parse(id)
	if !ok {
		return nil
	}
	return cli.Usage("%s is line %d of batch %s: `%s` writes its answers", id, ref.Line, ref.Batch,
		shell.Command("headway results", ref.Batch, "--out", "-"))
}

// infoOf is what asynq stores of a task, in all queues where none is named.
func infoOf(ctx context.Context, client redis.UniversalClient, t waitlist.Task) (*asynq.TaskInfo, error) {
	queues, err := asynqdb.New(client).QueuesOf(ctx, t.Queue, t.ID)
	if err != nil {
		return nil, err
	}
	if t.Queue = queues[0]; len(queues) > 1 {
		return nil, cli.Usage("task %s is in several queues, such as %q and %q: name one with --queue", t.ID, t.Queue,
			queues[1])
	}
	info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo(t.Queue, t.ID)
	if err != nil {
		return nil, fmt.Errorf("look for task %s in queue %q: %w", t.ID, t.Queue, err)
	}
	return info, nil
}

// batchName is what a batch is called, or the beginning of it. Generated IDs of tasks are longer, with
// dashes.
var batchName = regexp.MustCompile("^[0-9a-f]{1,16}$")

// orBatch adds to the error of an ID where the answers are if it is the ID of a batch.
func orBatch(err error, id string) error {
	if !batchName.MatchString(id) {
		return err
	}
	return fmt.Errorf("%w; if %s is a batch, `%s` writes its answers", err, id,
		shell.Command("headway results", id, "--out", "-"))
}

// answerIn is the answer of a task, or what became of it.
func answerIn(info *asynq.TaskInfo) (string, error) {
	switch {
	case info.State == asynq.TaskStateCompleted && len(info.Result) > 0:
		return string(info.Result), nil
	case info.State == asynq.TaskStateCompleted:
		return "", fmt.Errorf("there is no answer: task %s is done, and its handler left none", info.ID)
	case info.State == asynq.TaskStateArchived:
		return "", fmt.Errorf("there is no answer: task %s has failed: %s", info.ID, info.LastErr)
	}
	return "", fmt.Errorf("there is no answer yet: task %s has not ended (in asynq it is %s); `%s` says why",
		info.ID, info.State, shell.Command("headway explain", info.ID))
}
