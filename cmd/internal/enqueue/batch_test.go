package enqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/openai/openai-go/v3"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/setup/cli"
)

// outputLine is a line of an output or error file, as in OpenAI's documentation, with the body in the types of
// OpenAI's client.
type outputLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *openai.BatchError `json:"error"`
}

func readLines(t *testing.T, name string) (lines []outputLine) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for raw := range bytes.Lines(text) {
		var l outputLine
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		lines = append(lines, l)
	}
	return lines
}

func TestBatchRunsToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 150
		in := write(t, "in.jsonl", chats(n))
		out, errs := filepath.Join(t.TempDir(), "out.jsonl"), filepath.Join(t.TempDir(), "err.jsonl")
		w.work(t, nil)
		c := w.call(t, "batch", in, "--out", out, "--errors", errs, "--limit", "openai", "--json")
		if c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		got := readLines(t, out)
		for i, l := range got {
			if l.CustomID != "c"+strconv.Itoa(i+1) || l.Error != nil || l.Response == nil || l.Response.StatusCode != 200 ||
				l.Response.RequestID == "" {
				t.Fatalf("line %d: %+v", i+1, l)
			}
			var answer openai.ChatCompletion
			if err := json.Unmarshal(l.Response.Body, &answer); err != nil || answer.Choices[0].Message.Content == "" {
				t.Fatalf("line %d: %v: %s", i+1, err, l.Response.Body)
			}
		}
		if len(got) != n || len(readLines(t, errs)) != 0 {
			t.Errorf("%d answers", len(got))
		}
		if r := w.judge.Report(); r.Accepted != n || r.Violations != 0 {
			t.Errorf("the provider accepted %d requests, and counted %d violations: %+v", r.Accepted, r.Violations, r.Refusals)
		}
		events := strings.Split(strings.TrimSpace(c.out), "\n")
		var last figures
		if err := json.Unmarshal([]byte(events[len(events)-1]), &last); err != nil {
			t.Fatal(err)
		}
		if last.Event != "ended" || last.Done != n || last.Waiting != 0 || last.Used == 0 || last.Reserved < last.Used ||
			last.Cost == nil || *last.Cost <= 0 {
			t.Errorf("the last line is %s", events[len(events)-1])
		}
		c = w.call(t, "retry", last.ID, "--failed")
		if !strings.Contains(c.out, " has no failed requests: there is nothing") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		again := w.call(t, "batch", in, "--limit", "openai", "--wait", "--json")
		var r result
		first, _, _ := strings.Cut(again.out, "\n")
		if err := json.Unmarshal([]byte(first), &r); err != nil || again.code != cli.ExitOK || r.Enqueued != 0 ||
			r.Finished != n {
			t.Errorf("again: exit %d, %v, %s", again.code, err, again.out)
		}
		if report := w.judge.Report(); report.Accepted != n {
			t.Errorf("the provider was asked %d times", report.Accepted)
		}
	})
}

// refusing answers some requests itself, by texts in their bodies.
type refusing struct {
	next  http.RoundTripper
	mu    sync.Mutex
	asked map[string]int
	on    atomic.Bool // whether "never works" is refused
}

func (r *refusing) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	r.asked[string(body)]++
	first := r.asked[string(body)] == 1
	r.mu.Unlock()
	answer := func(status int, text string) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_7"}},
			Body: io.NopCloser(strings.NewReader(text)), Request: q,
		}, nil
	}
	switch {
	case bytes.Contains(body, []byte("never works")) && r.on.Load():
		return answer(400,
			`{"error":{"message":"no such thing","type":"invalid_request_error","param":null,"code":"bad_thing"}}`)
	case bytes.Contains(body, []byte("500 at first")) && first:
		return answer(500, `{"error":{"message":"oops","type":"server_error","param":null,"code":null}}`)
	case bytes.Contains(body, []byte("broken at first")) && first:
		return nil, errors.New("connection reset by peer")
	}
	return r.next.RoundTrip(q)
}

func chatLine(id, content string) string {
	return fmt.Sprintf(
		`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"m","max_tokens":5,`+
			`"messages":[{"role":"user","content":%q}]}}`,
		id, content) + "\n"
}

func TestFailuresOfABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chatLine("good", "hi")+chatLine("bad", "never works")+chatLine("late",
			"500 at first")+chatLine("cut", "broken at first"))
		out, errs := filepath.Join(t.TempDir(), "out.jsonl"), filepath.Join(t.TempDir(), "err.jsonl")
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		c := w.call(t, "batch", in, "--out", out, "--errors", errs, "--limit", "openai")
		if c.code != cli.ExitFailed || !strings.Contains(c.err, "1 of 4 requests failed") ||
			!strings.Contains(c.err, "--failed") {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if good := readLines(t, out); len(good) != 3 || good[0].CustomID != "good" || good[1].CustomID != "late" ||
			good[2].CustomID != "cut" {
			t.Errorf("answers %+v", good)
		}
		bad := readLines(t, errs)
		if len(bad) != 1 || bad[0].CustomID != "bad" || bad[0].Error != nil || bad[0].Response.StatusCode != 400 ||
			bad[0].Response.RequestID != "req_7" {
			t.Fatalf("errors %+v", bad)
		}
		var answer struct{ Error openai.ErrorObject }
		if err := json.Unmarshal(bad[0].Response.Body, &answer); err != nil || answer.Error.Code != "bad_thing" ||
			answer.Error.Message != "no such thing" {
			t.Errorf("%v: %s", err, bad[0].Response.Body)
		}
		id := batchOf(t, c)
		r, ok, err := w.store(t).Find(t.Context(), id, 3)
		if err != nil || !ok || len(r.Attempts) != 1 || r.Attempts[0].StatusCode != 500 {
			t.Errorf("%v, %v, attempts %+v", err, ok, r.Attempts)
		}
		upstream.on.Store(false)
		if c = w.call(t, "retry", id[:6], "--failed"); c.code != cli.ExitOK ||
			!strings.Contains(c.out, "1 failed request is") {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		c = w.call(t, "batch", in, "--out", out, "--errors", errs, "--limit", "openai")
		if c.code != cli.ExitOK || len(readLines(t, out)) != 4 || len(readLines(t, errs)) != 0 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if n := upstream.asked; len(n) != 4 {
			t.Errorf("asked %v", n)
		}
	})
}

// Skipped lines are named even if requests failed.
func TestLeftOutLinesAreNamedBesideFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chatLine("good", "hi")+`{"custom_id":"b"}`+"\n"+chatLine("bad", "never works"))
		upstream := &refusing{next: w.judge}
		upstream.on.Store(true)
		w.work(t, upstream)
		c := w.call(t, "batch", in, "--skip-invalid", "--wait", "--limit", "openai")
		if c.code != cli.ExitFailed {
			t.Errorf("exit %d", c.code)
		}
		for _, want := range []string{"1 of 2 requests failed", "1 line was left out", "line 2: method: missing"} {
			if !strings.Contains(c.err, want) {
				t.Errorf("%q is missing in %s", want, c.err)
			}
		}
	})
}

// batchOf returns the first batch that a command named.
func batchOf(t *testing.T, c call) string {
	t.Helper()
	_, rest, ok := strings.Cut(c.out, "batch ")
	id, _, _ := strings.Cut(rest, ":")
	if !ok || len(id) != 16 {
		t.Fatalf("no batch in %s", c.out)
	}
	return id
}

func TestCancelGivesBackAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 60
		in := write(t, "in.jsonl", chats(n))
		c := w.call(t, "batch", in, "--limit", "openai")
		if c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		id := batchOf(t, c)
		if c = w.call(t, "status", id[:8]); c.code != cli.ExitOK ||
			!strings.Contains(c.out, "0 of 60 done, 0 failed, 60 waiting") ||
			!strings.Contains(c.out, "no worker takes from queue") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "cancel", id); c.code != cli.ExitOK || !strings.Contains(c.out, "60 requests are deleted") ||
			c.pending(t) != 0 {
			t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if plan := w.promised(t); plan > 1 {
			t.Errorf("%v requests are still in the plan", plan)
		}
		errs := filepath.Join(t.TempDir(), "err.jsonl")
		if c = w.call(t, "results", id, "--errors", errs, "--json"); c.code != cli.ExitOK ||
			!strings.Contains(c.out, `"cancelled":60`) {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		for i, l := range readLines(t, errs) {
			if l.CustomID != "c"+strconv.Itoa(i+1) || l.Response != nil || l.Error.Code != "batch_cancelled" {
				t.Fatalf("line %d: %+v", i+1, l)
			}
		}
		w.work(t, nil)
		if c = w.call(t, "retry", id, "--failed"); c.code != cli.ExitUsage || !strings.Contains(c.err, "cancelled") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		c = w.call(t, "batch", in, "--limit", "openai", "--wait", "--errors", errs)
		if c.code != cli.ExitOK || len(readLines(t, errs)) != 0 || w.judge.Report().Accepted != n {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status"); !strings.Contains(c.out, id) || !strings.Contains(c.out, "all have ended") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// Workers that stop and start in the middle of a batch do not change its results.
func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const n = 200
		in := write(t, "in.jsonl", chats(n))
		out := filepath.Join(t.TempDir(), "out.jsonl")
		if c := w.call(t, "batch", in, "--limit", "openai"); c.code != cli.ExitOK {
			t.Fatalf("exit %d: %s", c.code, c.err)
		}
		for turn := range 3 {
			stop := w.work(t, nil)
			for w.judge.Report().Accepted < (turn+1)*n/4 {
				if err := pause.For(t.Context(), lookMin/10); err != nil {
					t.Fatal(err)
				}
			}
			stop()
		}
		w.work(t, nil)
		c := w.call(t, "batch", in, "--limit", "openai", "--out", out)
		// A worker that can't stop in time leaves its calls to the next one.
		if r := w.judge.Report(); c.code != cli.ExitOK || len(readLines(t, out)) != n || r.Accepted < n || r.Violations != 0 {
			t.Errorf("exit %d, %d accepted, violations %+v: %s", c.code, r.Accepted, r.Refusals, c.err)
		}
	})
}

// promised returns how many requests are reserved for waiting tasks.
func (w *world) promised(t *testing.T) float64 {
	t.Helper()
	settings := target{file: w.config}
	s, err := settings.openStored(w.context(t), cli.Environment{Getenv: w.getenv, Err: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	view, err := s.Limiter.View(t.Context(), "openai", "")
	if err != nil {
		t.Fatal(err)
	}
	return view.Meters[0].Promised
}

// A worker drops delivered tasks of a cancelled batch, and calls no provider.
func TestWorkersDropWhatIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(400))
		id := batchOf(t, w.call(t, "batch", in, "--limit", "openai"))
		store := w.store(t)
		if err := store.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.work(t, nil)
		inspector := w.redis.Inspector()
		for left := 1; left > 0; {
			info, err := inspector.GetQueueInfo("default")
			if err != nil {
				t.Fatal(err)
			}
			left = info.Size - info.Completed
			if err := pause.For(t.Context(), lookMin/3); err != nil {
				t.Fatal(err)
			}
		}
		if n := w.judge.Report().Accepted; n > 200 { // requests may start before the worker reads the state
			t.Errorf("%d requests were sent", n)
		}
	})
}

func TestInterruptedWaitWritesWhatIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(20))
		out := write(t, "out.jsonl", "old\n")
		ctx, interrupt := context.WithCancel(w.context(t))
		defer interrupt()
		progress := &lineSignal{line: "0 of 20 done", call: interrupt}
		var told bytes.Buffer
		code := cli.Run(ctx, rootCommand, []string{"batch", in, "--limit", "openai", "--out", out, "--config", w.config},
			cli.Environment{Getenv: w.getenv, Out: &told, Err: progress})
		if code != cli.ExitInterrupted || len(readLines(t, out)) != 0 || !strings.Contains(progress.text.String(),
			"0 of 20 requests have ended") {
			t.Errorf("exit %d: %s", code, progress.text.String())
		}
	})
}

// lineSignal calls a function when a text is written.
type lineSignal struct {
	text bytes.Buffer
	line string
	call func()
}

func (s *lineSignal) Write(b []byte) (int, error) {
	s.text.Write(b)
	if strings.Contains(s.text.String(), s.line) {
		s.call()
	}
	return len(b), nil
}
