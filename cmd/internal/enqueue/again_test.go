package enqueue

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A copy of a file with other line ends is the same batch. With --new it runs once more, and then the new batch
// goes on.
func TestTheSameFileAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		text := chats(3)
		first := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", text), "--limit", "openai"))
		for name, same := range map[string]string{
			"CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "no end": strings.TrimSuffix(text, "\n"),
			"mark": "\xef\xbb\xbf" + text,
		} {
			c := w.call(t, "batch", write(t, "copy.jsonl", same), "--limit", "openai")
			if id := batchOf(t, c); id != first || c.pending(t) != 3 {
				t.Errorf("%s: batch %s, %d requests in the queue", name, id, c.pending(t))
			}
		}
		in := write(t, "in.jsonl", text)
		c := w.call(t, "batch", in, "--limit", "openai", "--flow", "late")
		if !strings.Contains(c.err, "3 requests were enqueued before: --urgent, --priority and --flow do not change them") {
			t.Error(c.err)
		}
		c = w.call(t, "batch", in, "--limit", "openai", "--new")
		second := batchOf(t, c)
		if second == first || c.pending(t) != 6 {
			t.Errorf("batch %s, %d requests in the queue", second, c.pending(t))
		}
		if c = w.call(t, "batch", in, "--limit", "openai"); batchOf(t, c) != second || c.pending(t) != 6 {
			t.Errorf("batch %s, %d requests in the queue", batchOf(t, c), c.pending(t))
		}
		if c = w.call(t, "batch", in, "--limit", "openai", "--new"); c.pending(t) != 9 {
			t.Errorf("%d requests in the queue", c.pending(t))
		}
	})
}

// Single bytes hash like the whole, whatever its line ends.
func TestContentInPieces(t *testing.T) {
	t.Parallel()
	const text = "a\r\n\r\nb\r\rc\n"
	whole, pieces := newContent(), newContent()
	_, _ = whole.Write([]byte("a\n\nb\r\rc"))
	for i := range len(text) {
		_, _ = pieces.Write([]byte{text[i]})
	}
	if whole.sum() != pieces.sum() {
		t.Error("the hashes differ")
	}
}

// A time in the past is warned of.
func TestAtInThePast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := enqueueCommand(t, "", "enqueue", "hi", "--limit", "openai", "--config", repositoryConfig, "--at",
			"2020-01-01T00:00:00Z")
		if c.code != cli.ExitOK || !strings.Contains(c.err, "ago: the requests run at once") || c.pending(t) != 1 {
			t.Errorf("exit %d: %s", c.code, c.err)
		}
	})
}

// One request is cancelled and sent again by its name, while the others of its batch go on.
func TestCancelAndRetryOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := batchOf(t, w.call(t, "batch", write(t, "in.jsonl", chatLine("a:1", "hi")+chatLine("b", "hi")), "--limit",
			"openai"))
		if c := w.call(t, "cancel", id[:8]+":none"); c.code != cli.ExitFailed || !strings.Contains(c.err, "no such request") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c := w.call(t, "retry", id+":b"); c.code != cli.ExitFailed || !strings.Contains(c.err, "has not ended") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		c := w.call(t, "cancel", id[:8]+":a:1")
		if c.code != cli.ExitOK || c.out != "request a:1 of batch "+id+" is cancelled\n" || c.pending(t) != 1 {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "cancel", id+":a:1"); c.code != cli.ExitOK || !strings.Contains(c.out, "was cancelled already") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		if c = w.call(t, "status", id, "--failed"); !strings.Contains(c.out, "this request was cancelled") {
			t.Error(c.out)
		}
		if c = w.call(t, "retry", id+":a:1"); c.code != cli.ExitOK || c.pending(t) != 2 ||
			c.out != "batch "+id+": 1 failed request is in queue \"default\" again\n" {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
		w.work(t, nil)
		w.untilEnded(t, 2)
		ended := regexp.MustCompile(`all have ended, the last at 20\S+Z, after \d+s\n$`)
		if c = w.call(t, "status", id); !strings.Contains(c.out, "2 of 2 done, 0 failed") || !ended.MatchString(c.out) {
			t.Error(c.out)
		}
		if c = w.call(t, "status", id, "--json"); !regexp.MustCompile(`"ended":"20\S+Z","seconds":\d`).MatchString(c.out) {
			t.Error(c.out)
		}
		if c = w.call(t, "retry", id+":b"); c.code != cli.ExitFailed || !strings.Contains(c.err, "was answered") {
			t.Errorf("exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}

// The text of a chat, a completion and a response is found; other answers have none.
func TestTextOfAnswers(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}`: "a\n\nb",
		`{"choices":[{"text":"a"}]}`: "a",
		`{"output":[{"type":"reasoning"},{"type":"message","content":[{"text":"a"}]}]}`: "a",
		`{"data":[{"embedding":[1]}]}`: "",
		`no JSON`:                      "",
	} {
		if text, err := writtenIn(answer); text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", answer, text, err)
		}
	}
}
