package explained_test

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/products/explained"
)

// The command to copy has the names of the task and its batch as words of a shell, and not as flags.
func TestRecordsQuoteNames(t *testing.T) {
	t.Parallel()
	const dead, again = deadtasks.StateDead, deadtasks.StateRequeueing
	for name, c := range map[string]struct {
		task deadtasks.Task
		want string
	}{
		"a batch":             {deadtasks.Task{State: dead, Batch: "5f0c"}, "`headway retry 5f0c --failed`"},
		"a command":           {deadtasks.Task{State: dead, Batch: "x; sh"}, "`headway retry 'x; sh' --failed`"},
		"a flag":              {deadtasks.Task{State: dead, Batch: "-x"}, "`headway retry --failed -- '-x'`"},
		"the ID of a command": {deadtasks.Task{State: again, ID: "$(sh)"}, "`headway dead requeue '$(sh)'`"},
		"the ID of a flag":    {deadtasks.Task{State: again, ID: "--all"}, "`headway dead requeue -- '--all'`"},
	} {
		if got := explained.Record(c.task); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
