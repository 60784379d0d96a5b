package enqueue

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
)

// The IDs of tasks are unique within a queue only, so the same batch for another queue would be sent twice.
func TestABatchStaysInItsQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(3))
		if c := w.call(t, "batch", in, "--limit", "openai"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		c := w.call(t, "batch", in, "--limit", "openai", "--queue", "other")
		if c.code != cli.ExitUsage || !strings.Contains(c.err, `--queue default`) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		inspector := c.redis.Inspector()
		if info, err := inspector.GetQueueInfo("other"); err == nil {
			t.Errorf("the other queue has %+v", info)
		}
	})
}

// If a request can't be sent any more, it and all others keep their errors.
func TestRetryOfWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		c := w.call(t, "batch", write(t, "in.jsonl", chatLine("a", "never works")+chatLine("b",
			strings.Repeat("never works", 500))), "--limit", "openai", "--wait")
		if c.code != cli.ExitFailed {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		id := batchOf(t, c)
		w.config = write(t, "headway.yaml", "limits: {openai: {meters: {tokens: {rate: 100/s, max_reserved: 50}}}}")
		if c = w.call(t, "retry", id, "--failed"); c.code != cli.ExitUsage ||
			!strings.Contains(c.err, "no request was sent again: line 2") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", id); !strings.Contains(c.out, "2 failed, 0 waiting") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// The file changes between the check and the sending.
func TestAFileThatChanges(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(text string) string
		fails  bool
	}{
		"grows":      {func(text string) string { return text + line("new", 5) + "\n" }, false},
		"shrinks":    {func(text string) string { return text[:len(text)/2] }, true},
		"another":    {func(text string) string { return strings.ReplaceAll(text, "hi", "ho") }, true},
		"at its end": {func(text string) string { return text[:len(text)-30] + strings.Repeat(" ", 30) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := line("a", 5) + "\n" + strings.Repeat(" ", 3<<20) + "\n" + line("b", 5) + "\n"
			file := write(t, "in.jsonl", text)
			f, err := open(t.Context(), file, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.file.Close() }()
			first, err := io.ReadAll(f)
			if err != nil || string(first) != text {
				t.Fatal(len(first), err)
			}
			if err = os.WriteFile(file, []byte(tc.change(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			f.rewind()
			second, err := io.ReadAll(f)
			if errors.Is(err, errChanged) != tc.fails || !strings.HasPrefix(text, string(second)) || !tc.fails &&
				len(second) != len(text) {
				t.Errorf("read %d of %d bytes again: %v", len(second), len(text), err)
			}
		})
	}
}

// A pipe can be read only once.
func TestABatchFromANamedPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, []byte(chats(3)), 0o600) }()
		c := w.call(t, "batch", pipe, "--limit", "openai")
		if err := <-written; err != nil || c.code != cli.ExitOK || c.pending(t) != 3 {
			t.Errorf("%v, exit %d: %s%s", err, c.code, c.out, c.err)
		}
	})
}

// An interrupt ends the command while it waits for standard input.
func TestInterruptedStandardInput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, interrupt := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer interrupt()
		in, feeder := io.Pipe()
		defer func() { _ = feeder.Close() }()
		go func() { _, _ = io.WriteString(feeder, chats(3)) }()
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Run(ctx, rootCommand, []string{"batch", "-", "--limit", "openai", "--config", w.config},
				cli.Environment{Getenv: w.getenv, In: in, Out: io.Discard, Err: io.Discard})
		}()
		select {
		case code := <-ended:
			if code == cli.ExitOK {
				t.Error("it went well")
			}
		case <-time.After(3 * time.Minute):
			t.Error("it waits for standard input")
		}
	})
}
