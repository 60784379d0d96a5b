package scripts_test

import (
	"regexp"
	"strings"
	"testing"
)

// fakeGo is a fake go command. The module has a package for each lane; FAILS names one whose tests fail.
const fakeGo = `
case " $* " in
  *" list "*)
    [ -z "${EMPTY:-}" ] || { echo "no network" >&2; exit 1; }
    printf 'mod/%s\n' 'a [testing] [mod/internal/test/testenvoy]' 'worker [testing] [os mod/internal/test/testenv]' \
      'e2e [testing mod/internal/test/testenv] []' 'cmd/internal/fleet [testing] []' 'internal/test/fleets [] []' ;;
  *" test "*)
    echo "ok ran $* with ${REDIS_URL:-no service}" # the script prints lines of packages
    case $* in *"${FAILS:-nothing}"*)
      printf '=== NAME  TestBad\n    bad_test.go:7: it is bad\n--- FAIL: TestBad (0.00s)\nFAIL\tmod/bad\t1.0s\n'
      exit 1 ;;
    esac ;;
esac
`

func TestTest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lanes []string
		env   []string
		code  int
		says  string // a pattern
		not   string
	}{
		"the gate": {
			says: `(?s)-short .* mod/a with no service\n.*lane fleets: .*-short .* mod/worker with r:1\n` +
				`.*-short .* mod/e2e mod/cmd/internal/fleet with r:1\n.*tests passed`,
			not: "-race",
		},
		"in full":             {env: []string{"FULL=1"}, says: "tests passed", not: "-short"},
		"with race detector":  {env: []string{"RACE=1"}, says: `ran test .*-short -race .* mod/a`},
		"a lane":              {lanes: []string{"pure"}, says: `lane pure: 1 packages`, not: "mod/worker"},
		"no such lane":        {lanes: []string{"p"}, code: 2, says: "there is no lane p"},
		"no list of packages": {env: []string{"EMPTY=1"}, code: 1, says: "no network\n"},
		"a package fails": {
			env: []string{"FAILS=mod/a"}, code: 1, not: "tests passed",
			says: `(?s)mod/cmd/internal/fleet.*--- FAIL: TestBad \(0.00s\)\n    bad_test.go:7: it is bad\n.*FAIL: lane pure\n`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append([]string{"REDIS_URL=r:1", "MONGODB_URI=m:1"}, tc.env...)
			code, out := runWith(t, "scripts/test", tc.lanes, env, program{"go", fakeGo}, program{"sleep", ""})
			if code != tc.code || tc.not != "" && strings.Contains(out, tc.not) {
				t.Errorf("exit code %d, wanted %d, and no %q", code, tc.code, tc.not)
			}
			if !regexp.MustCompile(tc.says).MatchString(out) {
				t.Errorf("%s is missing", tc.says)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
