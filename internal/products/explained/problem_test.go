package explained_test

import (
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/state"
)

// A problem for which no task waits yet counts none.
func TestProblemsCountTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tasks int
		want  string
	}{
		{0, "Limit api is blocked, because a provider refused a call, for 30s more."},
		{1, "Limit api is blocked, because a provider refused a call: 1 task waits, for 30s more."},
		{2, "Limit api is blocked, because a provider refused a call: 2 tasks wait, for 30s more."},
	} {
		p := state.Problem{Cause: cause.Blocked("api"), Tasks: c.tasks, For: 30 * time.Second}
		if got, _ := explained.Problem(p); got != c.want {
			t.Errorf("%d tasks: %q, want %q", c.tasks, got, c.want)
		}
	}
	if got, _ := explained.Problem(state.Problem{Cause: cause.Fault("api")}); strings.HasSuffix(got, ":.") {
		t.Errorf("a fault: %q", got)
	}
}
