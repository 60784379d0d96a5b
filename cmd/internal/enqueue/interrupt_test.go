package enqueue

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
)

// A command that is interrupted while it enqueues prints its progress, and writes the answers so far.
func TestInterruptedWhileEnqueueing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in, out := write(t, "in.jsonl", chats(4000)), write(t, "out.jsonl", "old\n")
		slow := w.redis.Wire(time.Second, time.Second)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := slow.Dial(ctx, network, address)
			return c, errors.Join(err, pause.For(ctx, time.Millisecond)) // a wire is slow after its moment of dialing
		}
		ctx, interrupt := context.WithCancel(connect.WithDial(t.Context(), dial))
		defer interrupt()
		var told, errs bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Run(ctx, rootCommand, []string{
				"batch", in, "--limit", "openai", "--out", out, "--config",
				w.config,
			},
				cli.Environment{Getenv: w.getenv, Out: &told, Err: &errs})
		}()
		for (call{redis: w.redis}).pending(t) == 0 {
			if err := pause.For(t.Context(), time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		interrupt()
		code := <-ended
		if text := errs.String(); code != cli.ExitInterrupted || !strings.Contains(text, "interrupted") ||
			!strings.Contains(text, "of 4000 requests were enqueued (the same command goes on there; `headway cancel ") ||
			len(readLines(t, out)) != 0 {
			t.Errorf("exit %d: %s", code, text)
		}
	})
}

// A command that is interrupted while it waits prints whether workers go on.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		workers, paused bool
		want            string
	}{
		"served": {workers: true, want: "; the workers go on; the same command follows them again"},
		"no worker": {
			want: `; no worker takes from queue default, so the others wait until one does; the same command goes on`,
		},
		"paused": {
			workers: true, paused: true,
			want: `; queue default is paused, so the others wait until it is resumed; the same command goes on`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				in, out := write(t, "in.jsonl", chats(3)), filepath.Join(t.TempDir(), "out.jsonl")
				if sent := w.call(t, "batch", in, "--limit", "openai"); sent.code != cli.ExitOK {
					t.Fatalf("exit %d: %s", sent.code, sent.err)
				}
				if c.paused {
					inspector := w.redis.Inspector()
					if err := inspector.PauseQueue("default"); err != nil {
						t.Fatal(err)
					}
				}
				if c.workers {
					upstream := &held{next: w.judge, came: make(chan struct{}, 3), let: make(chan struct{})}
					stop := w.work(t, upstream)
					defer stop()
					defer close(upstream.let)
				}
				ctx, interrupt := context.WithCancel(w.context(t))
				defer interrupt()
				progress := &lineSignal{line: "0 of 3 done", call: interrupt}
				code := cli.Run(ctx, rootCommand, []string{
					"batch", in, "--limit", "openai", "--out", out, "--config",
					w.config,
				},
					cli.Environment{Getenv: w.getenv, Out: progress, Err: progress})
				if text := progress.text.String(); code != cli.ExitInterrupted ||
					!strings.Contains(text, "interrupted: 0 of 3 requests have ended; 0 answers are in "+out+c.want) ||
					!strings.HasSuffix(text, "; `headway cancel "+batchOf(t, call{out: text})+"` stops it\n") {
					t.Errorf("exit %d: %s", code, text)
				}
			})
		})
	}
}

// An interruption before the first look at the results counts the requests that had ended before.
func TestInterruptedBeforeTheFirstLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(3))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai"))
		if c := w.call(t, "cancel", id+":c1"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s", c.code, c.err)
		}
		ctx, interrupt := context.WithCancel(w.context(t))
		defer interrupt()
		progress := &lineSignal{line: "1 already ended", call: interrupt}
		code := cli.Run(ctx, rootCommand, []string{"batch", in, "--limit", "openai", "--wait", "--config", w.config},
			cli.Environment{Getenv: w.getenv, Out: progress, Err: progress})
		if text := progress.text.String(); code != cli.ExitInterrupted ||
			!strings.Contains(text, "interrupted: 1 of 3 requests have ended; ") {
			t.Errorf("exit %d: %s", code, text)
		}
	})
}
