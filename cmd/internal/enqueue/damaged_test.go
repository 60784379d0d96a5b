package enqueue

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A result that was damaged by hand ends no command: it is named by its line, and the others are written, listed and
// sent again.
func TestDamagedResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.opened(t, 5, 3*time.Second, 2*time.Second)
		request := `{"custom_id":"c5","method":"POST","url":"/v1/chat/completions",` +
			`"body":{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5}}`
		for line, d := range map[int]struct{ head, body bson.M }{
			3: {bson.M{"custom": "c3", "status": "done", "code": 200, "at": "never"}, nil},
			4: {bson.M{"custom": "c4", "status": "failed", "tries": "none"}, nil},
			5: {
				bson.M{"custom": "c5", "status": "failed", "at": time.Now(), "code": 500, "kept": true},
				bson.M{"request": request},
			},
		} {
			w.insert(t, "results", fmt.Sprintf("%s/%09d", id, line), d.head, d.body)
		}
		out, errs := filepath.Join(t.TempDir(), "out"), filepath.Join(t.TempDir(), "errs")
		c := w.call(t, "results", id, "--out", out, "--errors", errs)
		good, bad := readLines(t, out), readLines(t, errs)
		if c.code != cli.ExitFailed || len(good) != 2 || len(bad) != 3 || !strings.Contains(c.err, "line 3 of batch") ||
			!strings.Contains(c.err, "2 stored results can't be read") || !strings.Contains(c.out, "2 answers, 1 failed") {
			t.Errorf("results: exit %d, %d and %d lines: %s%s", c.code, len(good), len(bad), c.out, c.err)
		}
		for i, want := range []string{"c3", "c4", "c5"} {
			if i < len(bad) && (bad[i].CustomID != want || (bad[i].Response == nil) != (want != "c5")) {
				t.Errorf("line %d of the errors: %+v", i+1, bad[i])
			}
		}
		c = w.call(t, "status", id, "--failed")
		if c.code != cli.ExitOK || !strings.Contains(c.out, "c4") || !strings.Contains(c.out, "c5") {
			t.Errorf("status --failed: exit %d: %s%s", c.code, c.out, c.err)
		}
		c = w.call(t, "retry", id, "--failed")
		if !strings.Contains(c.out+c.err, "1 failed request is") || !strings.Contains(c.err, "line 4 of batch") ||
			strings.Contains(c.err, "line 0") {
			t.Errorf("retry: exit %d: %s%s", c.code, c.out, c.err)
		}
		c = w.call(t, "retry", id+":c4")
		if c.code == cli.ExitOK || !strings.Contains(c.err, "line 4 of batch") || strings.Contains(c.err, "line 0") {
			t.Errorf("retry of one: exit %d: %s%s", c.code, c.out, c.err)
		}
	})
}
