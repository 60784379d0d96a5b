package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/cli"
)

// Whoever waits for a batch that is cancelled has a line for each of its requests, though nobody has taken them back yet.
func TestCancelledWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = chunk + 20
	in, errs := write(t, "in.jsonl", chats(n)), filepath.Join(t.TempDir(), "err.jsonl")
	store := w.store(t)
	var told bytes.Buffer
	progress := &lineSignal{line: "0 of 520 done", call: func() {
		if err := store.Cancel(t.Context(), batchOf(t, call{out: told.String()})); err != nil {
			t.Error(err)
		}
	}}
	code := cli.Run(t.Context(), rootCommand, []string{"batch", in, "--limit", "openai", "--errors", errs, "--config", w.config},
		cli.Environment{Getenv: w.getenv, Out: &told, Err: progress})
	if text := progress.text.String(); code != cli.ExitFailed || !strings.Contains(text, "was cancelled") || !strings.Contains(text, "enqueue results") {
		t.Errorf("exit %d: %s", code, text)
	}
	lines := readLines(t, errs)
	for i, l := range lines {
		if l.CustomID != "c"+count(i+1) || l.Response != nil || l.Error.Code != "batch_cancelled" {
			t.Fatalf("line %d: %+v", i+1, l)
		}
	}
	if len(lines) != n {
		t.Errorf("%d lines", len(lines))
	}
}

// Of requests that nobody has named nothing can be written, and that is said.
func TestResultsOfUnknownRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store, id := w.store(t), "0123456789abcdef"
	if _, _, err := store.Open(t.Context(), batches.Batch{ID: id, Lines: 3, Requests: 3, Limit: "openai", Queue: "default"}); err != nil {
		t.Fatal(err)
	}
	if err := store.Name(t.Context(), id, []batches.Named{{Line: 2, CustomID: "b"}}); err != nil {
		t.Fatal(err)
	}
	errs := filepath.Join(t.TempDir(), "err.jsonl")
	c := w.call(t, "results", id, "--errors", errs)
	if c.code != cli.ExitOK || !strings.Contains(c.out, "3 not there yet, of 3") || strings.Contains(c.err, "no line") || len(readLines(t, errs)) != 0 {
		t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
	}
	if err := store.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c = w.call(t, "results", id, "--errors", errs)
	if lines := readLines(t, errs); c.code != cli.ExitOK || !strings.Contains(c.err, "2 requests of the cancelled batch have no line") || len(lines) != 1 || lines[0].CustomID != "b" {
		t.Errorf("exit %d: %+v: %s%s", c.code, lines, c.out, c.err)
	}
}

// A batch that has ended can't be cancelled, and so its failed requests can still be sent again.
func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upstream := &refusing{}
	upstream.on.Store(true)
	w.work(t, upstream)
	c := w.call(t, "batch", write(t, "in.jsonl", chatLine("good", "hi")+chatLine("bad", "never works")), "--limit", "openai", "--wait")
	id := batchOf(t, c)
	if c = w.call(t, "cancel", id); c.code != cli.ExitOK || !strings.Contains(c.out, "nothing to cancel") {
		t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
	}
	if c = w.call(t, "cancel", id, "--json"); c.code != cli.ExitOK || !strings.Contains(c.out, `"withdrawn":0,"ended":2,"left":0`) {
		t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
	}
	if c = w.call(t, "retry", id, "--failed"); c.code != cli.ExitOK || !strings.Contains(c.out, "1 failed requests") {
		t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
	}
}
