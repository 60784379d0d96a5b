package explained_test

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/explained"
)

// A task chooses its own ID, and people copy the command.
func TestRecordQuotesIDs(t *testing.T) {
	t.Parallel()
	got := explained.Record(deadtasks.Task{ID: "a; reboot", State: deadtasks.StateRequeueing})
	if want := "`headway dead requeue 'a; reboot'`"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}
