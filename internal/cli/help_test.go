package cli_test

import (
	"testing"

	"github.com/headway-go/headway/internal/cli"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	const text = `Worker takes tasks from queues
and runs them.

It has lists:
  A        the first one is long
  B        short

end-of-the-very-long-word here`
	const want = `Worker takes tasks
from queues and runs
them.

It has lists:
  A the first one is
  long
  B        short

end-of-the-very-long-word
here`
	if got := cli.Wrap(text, 20); got != want {
		t.Errorf("%s", got)
	}
}
