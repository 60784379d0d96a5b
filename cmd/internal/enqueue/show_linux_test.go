package enqueue

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/clitest"
)

// On a terminal the figures, or an error, are below a bar, and the last figures stay.
func TestProgressOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	f := newFigures(batches.Progress{
		Batch:  batches.Batch{ID: "b", Requests: 3, State: batches.StateOpen},
		Counts: batches.Counts{Done: 1},
	})
	shown := clitest.Shown(t, 80, func(terminal *os.File) {
		synctest.Test(t, func(*testing.T) {
			s := &show{env: cli.Environment{Out: terminal, Err: terminal}}
			s.trouble(errors.New("before a bar"))
			s.progress(f)
			<-time.After(300 * time.Millisecond) // the bar is drawn now and then
			s.trouble(errors.New("below the bar"))
			<-time.After(300 * time.Millisecond)
			f.Done, f.Waiting, f.State = 3, 0, batches.StateEnded
			s.end(f)
		})
	})
	at := 0
	for _, want := range []string{
		"trying on: before a bar\n", " 1 of 3", "1 of 3 done, 0 failed, 2 waiting", "trying on: below the bar",
		"\x1b[K3 of 3 done, 0 failed, 0 waiting; all have ended\n",
	} {
		n := strings.Index(shown[at:], want)
		if n < 0 {
			t.Fatalf("%q is missing after %d bytes of %q", want, at, shown)
		}
		at += n
	}
}
