package scripts_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fakeGo is a go command whose tests list two long ones with -short, one of them twice, and without it those that
// need more time than is left: more than an hour.
const fakeGo = `
folder=$2
case " $* " in
  " list -m ") echo mod ;;
  " list ./... ") printf 'mod/a\nmod/reservations\nmod/e2e\n' ;;
  *" test "*)
    echo "ran $*"
    for a in "$@"; do
      case $a in -coverprofile=*) printf 'mode: atomic\nmod/headway/reservations/a.go:1.1,2.2 1 %d\n' "${COVERED:-1}" >"${a#*=}" ;; esac
    done
    case $* in
      *-short*./e2e) printf '%s/e2e\t%s\n' "$PWD" $'TestFleet\t30' "$PWD" $'TestFleet\t30' "$PWD" $'TestKilled\t9000' >>"$HEADWAY_TESTS_LEFT" ;;
      *-short*) ;;
      *) [ "$HEADWAY_TESTS_UNTIL" -gt $(($(date +%s) + 9000)) ] || printf '%s\tTestKilled\t9000\n' "$folder" >>"$HEADWAY_TESTS_LEFT" ;;
    esac
    case $* in *"${FAILS:-nothing}"*) exit 1 ;; esac ;;
esac
`

func TestTest(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string { return fmt.Sprintf("HEADWAY_TESTS_UNTIL=%d", time.Now().Add(d).Unix()) }
	const later = "COLD_TAKES=1000000" // the cold start never fits
	for name, tc := range map[string]struct {
		all      bool
		env      []string
		code     int
		says     []string // patterns
		saysNone string
	}{
		"quick": {
			says: []string{
				`(?m)^ran -C \. test .*-race -short .*-coverpkg=\./reservations/\.\.\. \./reservations/\.\.\.$`, `(?m)^ran -C \. test .*-race -short .* mod/a$`,
				`(?m)^ran -C bench test -count=1 -short .*\./\.\.\.$`, `left to make test-all, or run in part: 2 tests \(9030 s\)\n  \./e2e: TestFleet TestKilled\ntests passed`,
			},
			saysNone: "-run",
		},
		"all": {
			all: true, env: []string{in(5 * time.Hour), later},
			says: []string{
				`left by -short: 2 tests \(9030 s\), they run now\nran -C \S+/e2e test -count=1 -race .*-run \^\(TestFleet\|TestKilled\)\$ \.\n`,
				`did NOT run for want of time: 1 test .*\n  \./scripts: cold-start\ntests passed`,
			},
		},
		"no time for one": {
			all: true, env: []string{in(time.Hour), later},
			says: []string{`did NOT run for want of time: 2 tests .*\n  \./e2e: TestKilled\n  \./scripts: cold-start\ntests passed`},
		},
		"a package fails":   {env: []string{"FAILS=mod/a"}, code: 1, says: []string{"FAIL: see above", "/e2e"}, saysNone: "tests passed"},
		"the bench fails":   {env: []string{"FAILS=-C bench"}, code: 1, says: []string{"FAIL: see above", "/e2e"}, saysNone: "tests passed"},
		"a long test fails": {all: true, env: []string{"FAILS=-run", in(5 * time.Hour), later}, code: 1, says: []string{"FAIL: see above"}, saysNone: "tests passed"},
		"not covered":       {env: []string{"COVERED=0"}, code: 1, says: []string{"FAIL: coverage of reservations"}, saysNone: "tests passed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{}
			if tc.all {
				args = append(args, "all")
			}
			code, out := runWith(t, "scripts/test", args, tc.env, program{"go", fakeGo})
			if code != tc.code || tc.saysNone != "" && strings.Contains(out, tc.saysNone) {
				t.Errorf("exit code %d, wanted %d, and no %q", code, tc.code, tc.saysNone)
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
