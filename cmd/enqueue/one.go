package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/cli"
)

// enqueued is what `enqueue one --json` prints.
type enqueued struct {
	ID    string    `json:"id"`
	Queue string    `json:"queue"`
	State string    `json:"state"`
	Next  time.Time `json:"next_process_at,omitzero"`
}

func oneCommand(env cli.Environment) *cobra.Command {
	var t target
	var model, body string
	var maxTokens int
	var asJSON bool
	c := &cobra.Command{
		Use:   "one [PROMPT]",
		Short: "Enqueue one chat request, now or for later",
		Long: `One enqueues a single chat request: a prompt ("-" reads it from standard input), or a whole request body as JSON.
It prints the task's ID: "enqueue answer ID" prints what came back, "worker explain ID" says why the task waits, and asynq's tools show it.`,
		Example: `  enqueue one "Why is the sky blue?" --limit openai --model gpt-4o-mini --max-tokens 200
  enqueue answer 0b2f8a54-7d0c-4e6f-9c0e-3a8e0c6f2a11
  enqueue one "Good morning" --limit openai --in 8h
  enqueue one "Hi" --limit tenants:acme --limit openai
  enqueue one --body '{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hi"}]}' --limit openai`,
		Args: cli.Args(cobra.MaximumNArgs(1)),
	}
	t.flags(c, 24*time.Hour, " with its answer; 0 for not at all")
	c.Flags().StringVar(&model, "model", "gpt-4o-mini", "the model")
	c.Flags().IntVar(&maxTokens, "max-tokens", 500, "the most tokens that the answer may have")
	c.Flags().StringVar(&body, "body", "", "the whole request as JSON, instead of a prompt")
	c.Flags().BoolVar(&asJSON, "json", false, "print the task as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if body != "" && (c.Flags().Changed("model") || c.Flags().Changed("max-tokens")) {
			return &cli.UsageError{Err: errors.New("--body holds the whole request; it excludes --model and --max-tokens")}
		}
		if len(args) == 1 && args[0] == "-" {
			text, err := io.ReadAll(env.In)
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			args[0] = strings.TrimSpace(string(text))
		}
		request, err := requestOf(args, body, model, maxTokens)
		if err != nil {
			return err
		}
		return enqueueOne(c, env, &t, request, asJSON)
	}
	return c
}

// requestOf is the body of the chat request that the command line describes.
func requestOf(args []string, body, model string, maxTokens int) (json.RawMessage, error) {
	switch {
	case body != "" && len(args) > 0, body == "" && len(args) == 0:
		return nil, &cli.UsageError{Err: errors.New("give either a PROMPT or --body")}
	case body != "":
		return json.RawMessage(body), nil
	case strings.TrimSpace(args[0]) == "":
		return nil, &cli.UsageError{Err: errors.New("the prompt is empty")}
	case maxTokens < 1:
		return nil, &cli.UsageError{Err: fmt.Errorf("--max-tokens %d must be at least 1", maxTokens)}
	default:
		return json.Marshal(map[string]any{
			"model": model, "max_tokens": maxTokens, "messages": []map[string]string{{"role": "user", "content": args[0]}},
		})
	}
}

func enqueueOne(c *cobra.Command, env cli.Environment, t *target, request json.RawMessage, asJSON bool) error {
	options, err := t.options()
	if err != nil {
		return err
	}
	limits, from, err := t.load()
	if err != nil {
		return err
	}
	task, err := maker{from: from}.task(batch.Line{URL: batch.URLChatCompletions, Body: request})
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	for _, name := range from.over(task) {
		t.warn(env, "the request reserves more than the capacity of limit %q: it waits for a full bucket, and everybody else until it is paid back", name)
	}
	s, err := t.open(c.Context(), env, limits)
	if err != nil {
		return err
	}
	defer s.close(c.Context())
	info, err := s.scheduler.Enqueue(c.Context(), task, options...)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(env.Out).Encode(enqueued{ID: info.ID, Queue: info.Queue, State: info.State.String(), Next: info.NextProcessAt})
	}
	fmt.Fprintln(env.Out, info.ID)
	return nil
}
