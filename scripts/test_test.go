package scripts_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fakeGo is a fake go command. With -short its tests report three skipped long tests, one of them twice. Without
// -short they report the tests that need more time than is left.
const fakeGo = `
case " $* " in
  " list -m ") echo mod ;;
  " list ./... ") printf 'mod/a\nmod/reservations\nmod/e2e\nmod/worker\n' ;;
  *" test "*)
    echo "ran $*"
    for a in "$@"; do
      case $a in -coverprofile=*)
        printf 'mode: atomic\nmod/headway/reservations/a.go:1.1,2.2 1 %d\n' "${COVERED:-1}" >"${a#*=}" ;;
      esac
    done
    case $* in
      *-short*mod/reservations*) printf '%s/reservations\tTestHistories\t60\n' "$PWD" >>"$HEADWAY_TESTS_LEFT" ;;
      *-short*./e2e)
        for test in $'TestFleet\t30' $'TestFleet\t30' $'TestKilled\t9000'; do
          printf '%s/e2e\t%s\n' "$PWD" "$test" >>"$HEADWAY_TESTS_LEFT"
        done ;;
      *TestKilled*)
        [ "$HEADWAY_TESTS_UNTIL" -gt $(($(date +%s) + 9000)) ] ||
          printf '%s\tTestKilled\t9000\n' "$2" >>"$HEADWAY_TESTS_LEFT" ;;
    esac
    case $* in *"${FAILS:-nothing}"*) exit 1 ;; esac ;;
esac
`

func TestTest(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return fmt.Sprintf("HEADWAY_TESTS_UNTIL=%d", time.Now().Add(d).Unix()) }
	const later, other = "COLD_TAKES=1000000", "HOSTILE_TAKES=1000000" // these two never fit
	const listed = `3 tests \(9090 s\)`
	for name, tc := range map[string]struct {
		all  bool
		env  []string
		code int
		says []string // patterns
		not  string
	}{
		"quick": {
			says: []string{
				`(?m)^ran -C \. test .*-race -p \d+ -short .* mod/worker mod/a mod/reservations$`,
				`(?m)^ran -C bench test -count=1 -short .*\./\.\.\.$`,
				`(?m)^ran -C deploy/tests test -count=1 -short .*\./\.\.\.$`,
				`(?m)^ran -C \. test .*-race -short .* \./e2e$`,
				`left to make test-all, or run in part: ` + listed +
					`\n  \./e2e: TestFleet TestKilled\n  \./reservations: TestHistories\ntests passed`,
			},
			not: "-cover",
		},
		"all": {
			all: true, env: []string{in(5 * time.Hour), later},
			says: []string{
				`left by -short: ` + listed +
					`, they run now\nran -C browser test -count=1 -timeout \d+s \./\.\.\.\nran -C \. test ` +
					`.*-coverpkg=\./internal/bucket,\./reservations/\.\.\. \./reservations/\.\.\.\n`,
				`(?m)^ran -C \S+/e2e test -count=1 -race .*-run \^\(TestFleet\|TestKilled\)\$ \.$`,
				`did NOT run for want of time: 2 tests .*\n  \./scripts: cold-start test-hostile\ntests passed`,
			},
			not: "/reservations test",
		},
		"no time for one": {
			all: true, env: []string{in(time.Hour), later},
			says: []string{
				`did NOT run for want of time: 3 tests .*\n  \./e2e: TestKilled\n  \./scripts: cold-start test-hostile\ntests ` +
					`passed`,
			},
		},
		"no time": {
			all: true, env: []string{in(-time.Hour)},
			says: []string{
				`-timeout 60s`,
				`did NOT run for want of time: 6 tests .*\n  \./e2e: TestKilled\n  \./reservations: TestHistories\n  \./scripts: ` +
					`browser cold-start coverage test-hostile\n`,
			},
			not: "-cover",
		},
		"a package fails": {
			env: []string{"FAILS=mod/a"}, code: 1, says: []string{"FAIL: see above", `\./e2e`}, not: "passed",
		},
		"the bench fails": {
			env: []string{"FAILS=-C bench"}, code: 1, says: []string{"FAIL: see above", `\./e2e`}, not: "passed",
		},
		"no browser": {
			all: true, env: []string{in(5 * time.Hour), later, "CHROMIUM=nothing-of-that-name"}, code: 1,
			says: []string{"nothing-of-that-name is no program", "FAIL: scripts/browser", "-coverpkg"}, not: "ran -C browser",
		},
		"a page fails": {
			all: true, env: []string{"FAILS=-C browser", in(5 * time.Hour), later}, code: 1, says: []string{"FAIL: see above"},
			not: "passed",
		},
		"an alert fails": {
			env: []string{"FAILS=-C deploy"}, code: 1, says: []string{"FAIL: see above", `\./e2e`}, not: "passed",
		},
		"a long test fails": {
			all: true, env: []string{"FAILS=-run", in(5 * time.Hour), later}, code: 1, says: []string{"FAIL: see above"},
			not: "passed",
		},
		"not covered": {
			all: true, env: []string{"COVERED=0", in(5 * time.Hour), later}, code: 1, says: []string{"FAIL: coverage"},
			not: "passed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if tc.all {
				args = append(args, "all")
			}
			code, out := runWith(t, "scripts/test", args, append([]string{"CHROMIUM=bash", "AXE_CORE=axe.js", other}, tc.env...),
				program{"go", fakeGo})
			if code != tc.code || tc.not != "" && strings.Contains(out, tc.not) {
				t.Errorf("exit code %d, wanted %d, and no %q", code, tc.code, tc.not)
			}
			for _, pattern := range tc.says {
				if !regexp.MustCompile(pattern).MatchString(out) {
					t.Errorf("%s is missing", pattern)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
