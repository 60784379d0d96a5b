package enqueue

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A key that a store would change, or that is too long for a bucket, is refused before any request is sent.
func TestKeysOfTheCommandLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		in := write(t, "in.jsonl", chats(2))
		for key, want := range map[string]string{"\xff": "must be valid UTF-8", strings.Repeat("x", 513): "at most 512"} {
			for _, args := range [][]string{
				{"enqueue", "hi", "--limit", "openai", "--key", key}, {"enqueue", "hi", "--limit", "openai:" + key}, {
					"batch", in,
					"--limit", "openai", "--key", key,
				},
			} {
				if c := w.call(t, args...); c.code != cli.ExitUsage || !strings.Contains(c.err, want) || c.pending(t) != 0 {
					t.Errorf("%.60q: exit %d, %.300s", args, c.code, c.err)
				}
			}
		}
	})
}
