package cli

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	const given = `Worker takes tasks from queues and runs them, as long
as it lives.

It has lists:
  A       the first one is
          long
  B       short
  -h, --a-long-flag  has this help

end-of-the-very-long-word here: ` + "`headway dead` lists them, `headway limits` them all`"
	const want = `Worker takes tasks
from queues and runs
them, as long as it
lives.

It has lists:
  A       the first
          one is
          long
  B       short
  -h, --a-long-flag
  has this help

end-of-the-very-long-word
here: ` + "`headway dead`\nlists them,\n`headway limits`\nthem all`"
	if got := wrap(unfold(given), 20); got != want {
		t.Errorf("%s", got)
	}
	if got := wrap(given, 0); got != given {
		t.Errorf("any width: %s", got)
	}
	if got, want := wrap(boldOn+"12345"+boldOff+" 789\n", 9), boldOn+"12345"+boldOff+" 789\n"; got != want {
		t.Errorf("bold print: %q", got)
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("  A   word  and another\n\n  b\n", 8)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		columns = min(max(1, columns), 100)
		shown := wrap(text, columns)
		if got, want := strings.Fields(shown), strings.Fields(text); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q became %q", text, shown)
		}
	})
}
