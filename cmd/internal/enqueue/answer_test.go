package enqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/openai/openai-go/v3"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/setup/cli"
)

// The command prints the answer of one request, or the reason why there is none yet.
func TestAnswerOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		id := strings.TrimSpace(w.call(t, "enqueue", "hi", "--limit", "openai").out)
		bad := strings.TrimSpace(w.call(t, "enqueue", "never works", "--limit", "openai").out)
		if c := w.answer(t, id); c.code != cli.ExitFailed ||
			!strings.Contains(c.err, "no answer yet: task "+id+" has not ended (in asynq it is scheduled); "+
				"`headway explain "+id) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		w.work(t, upstream)
		w.untilEnded(t, 2)
		c := w.answer(t, id)
		var answer openai.ChatCompletion
		if err := json.Unmarshal([]byte(c.out), &answer); err != nil || c.code != cli.ExitOK ||
			answer.Choices[0].Message.Content == "" {
			t.Errorf("exit %d, %v: %s%s", c.code, err, c.out, c.err)
		}
		if c = w.answer(t, id[:12]); c.code != cli.ExitOK || c.out == "" {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.answer(t, id, "--queue", "default"); c.code != cli.ExitOK || c.out == "" {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		for name, tc := range map[string]struct {
			args []string
			code int
			want string
		}{
			"failed":      {[]string{bad}, cli.ExitFailed, "no such thing"},
			"unknown":     {[]string{"nobody"}, cli.ExitFailed, "there is no nobody in queue"},
			"other queue": {[]string{id, "--queue", "other"}, cli.ExitFailed, `queue "other"`},
			"whole batch": {[]string{"0123456789abcdef"}, cli.ExitFailed, "if 0123456789abcdef is a batch, `headway results " +
				"0123456789abcdef --out -`"},
			"its prefix": {[]string{"3f2a", "--queue", "default"}, cli.ExitFailed, "if 3f2a is a batch, `headway results 3f2a"},
			"batch":      {[]string{"3f2a-7-0"}, cli.ExitUsage, "line 7 of batch 3f2a: `headway results 3f2a"},
		} {
			if c = w.answer(t, tc.args...); c.code != tc.code || !strings.Contains(c.err, tc.want) || c.out != "" {
				t.Errorf("%s: exit %d: %s%s", name, c.code, c.out, c.err)
			}
		}
	})
}

// answer calls the command, which has no --config.
func (w *world) answer(t *testing.T, args ...string) call {
	t.Helper()
	return callWith(t, w.redis, w.env, "", append([]string{"answer"}, args...)...)
}

// untilEnded waits until n tasks are completed or archived.
func (w *world) untilEnded(t *testing.T, n int) {
	t.Helper()
	w.until(t, func(info *asynq.QueueInfo) bool { return info.Completed+info.Archived == n })
}

// until waits until the queue satisfies so.
func (w *world) until(t *testing.T, so func(*asynq.QueueInfo) bool) {
	t.Helper()
	inspector := w.redis.Inspector()
	for {
		if info, err := inspector.GetQueueInfo("default"); err == nil && so(info) {
			return
		}
		if err := pause.For(t.Context(), 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
