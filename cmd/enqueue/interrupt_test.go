package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/cli"
)

// Whoever is interrupted while he enqueues says how far he came, and writes the answers that are there.
func TestInterruptedWhileEnqueueing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in, out := write(t, "in.jsonl", chats(8000)), write(t, "out.jsonl", "old\n")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var told, errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, rootCommand, []string{"batch", in, "--limit", "openai", "--out", out, "--config", w.config},
			cli.Environment{Getenv: w.getenv, Out: &told, Err: &errs})
	}()
	for (call{redis: w.redis}).pending(t) == 0 {
		if err := pause(t.Context(), lookMin/30); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	code := <-ended
	if text := errs.String(); code != cli.ExitInterrupted || !strings.Contains(text, "interrupted") || !strings.Contains(text, "of 8000 requests were enqueued") || len(readLines(t, out)) != 0 {
		t.Errorf("exit %d: %s", code, text)
	}
}
