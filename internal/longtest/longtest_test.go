package longtest_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// child is set if this binary runs itself, because flags can't be changed within a process.
const child = "HEADWAY_LONGTEST_CHILD"

// The marked tests run only in the child.
func TestMarked(t *testing.T) { //nolint:paralleltest // the parts end in this order
	if os.Getenv(child) == "" {
		t.Skip("TestMarks runs it")
	}
	t.Run("only", func(t *testing.T) { //nolint:paralleltest // likewise
		longtest.Only(t, time.Minute)
		t.Log("all of only")
	})
	t.Run("short", func(t *testing.T) { //nolint:paralleltest // likewise
		if longtest.Short(t, 2*time.Minute) {
			t.Log("part of short")
			return
		}
		t.Log("all of short")
	})
}

func TestMarks(t *testing.T) {
	t.Parallel()
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	const (
		only  = "TestMarked\t60\n"
		short = "TestMarked\t120\n"
	)
	for name, tc := range map[string]struct {
		flag, until string
		left        []string
		says, not   []string
	}{
		"quick": {
			flag: "-test.short", left: []string{only, short},
			says: []string{"takes 1m0s: `make test-all` runs it", "part of short"}, not: []string{"all of only", "all of short"},
		},
		"all":           {says: []string{"all of only", "all of short"}, not: []string{"make test-all"}},
		"time is there": {until: in(time.Hour), says: []string{"all of only", "all of short"}, not: []string{"did not run"}},
		"time for one": {
			until: in(90 * time.Second), left: []string{short},
			says: []string{"all of only", "did not run: takes 2m0s"}, not: []string{"all of short"},
		},
		"late": {
			until: in(-time.Hour), left: []string{only, short}, says: []string{"and 0s are left"}, not: []string{"all of"},
		},
		"no time": {until: "soon", says: []string{`HEADWAY_TESTS_UNTIL is "soon"`, "FAIL"}, not: []string{"all of"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := filepath.Join(t.TempDir(), "left")
			args := []string{"-test.v", "-test.run=^TestMarked$"}
			if tc.flag != "" {
				args = append(args, tc.flag)
			}
			c := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], args...)
			c.Env = []string{
				child + "=1", "GORACE=atexit_sleep_ms=0", "HEADWAY_TESTS_LEFT=" + list, "HEADWAY_TESTS_UNTIL=" + tc.until,
			}
			out, _ := c.CombinedOutput() // a failure is in the text
			for _, text := range tc.says {
				if !strings.Contains(string(out), text) {
					t.Errorf("%q is missing in: %s", text, out)
				}
			}
			for _, text := range tc.not {
				if strings.Contains(string(out), text) {
					t.Errorf("%q is in: %s", text, out)
				}
			}
			var want strings.Builder
			for _, line := range tc.left {
				want.WriteString(folder + "\t" + line)
			}
			if got, err := os.ReadFile(list); string(got) != want.String() {
				t.Errorf("listed %q, %v; want %q", got, err, want.String())
			}
		})
	}
}
