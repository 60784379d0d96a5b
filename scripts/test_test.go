package scripts_test

import (
	"regexp"
	"strings"
	"testing"
)

// fakeGo is a fake go command. It passes each test of hostile input that scripts/test-hostile names, but for the tests
// of HIDDEN.
const fakeGo = `
case " $* " in
  " list ./... ") printf 'mod/a\nmod/reservations\nmod/e2e\nmod/headwaytest\nmod/internal/test/fleets\n' ;;
  *" build "*) case $* in *"${FAILS:-nothing}"*) exit 1 ;; esac ;;
  *" test "*)
    echo "ok ran $*" # the script prints lines of packages
    for a in "$@"; do
      case $a in -coverprofile=*)
        printf 'mode: atomic\nmod/headway/reservations/a.go:1.1,2.2 1 %d\n' "${COVERED:-1}" >"${a#*=}" ;;
      esac
    done
    case $* in *mod/a*) grep -oE '\bTest[A-Za-z0-9]+' scripts/test-hostile | grep -v "${HIDDEN:-none}" |
      sed 's/.*/--- PASS: & (0.00s)/' ;; esac
    case $* in *"${FAILS:-nothing}"*)
      printf '=== NAME  TestBad\n    bad_test.go:7: it is bad\n--- FAIL: TestBad (0.00s)\nFAIL\tmod/bad\t1.0s\n'
      exit 1 ;;
    esac ;;
esac
`

func TestTest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		all  bool
		env  []string
		code int
		says []string // patterns
		not  string
	}{
		"quick": {
			says: []string{
				`(?m)^ok ran -C \. test .* -short .* \./worker \./e2e .* \./\.\.\.$`,
				`tests passed`,
			},
			not: "-race",
		},
		"all": {
			all: true,
			says: []string{
				`(?m)^ok ran -C \. test .*-race -short .* \./reservations/\.\.\.$`,
				`(?m)^ok ran -C \. test .*-race -shuffle=on .* \./worker .* mod/a$`,
				`(?m)^ok ran -C \. test .* -shuffle=on .* \./e2e \./headwaytest \./examples/fleet \./internal/test/\.\.\.$`,
				`(?m)^ok ran -C \. test .*-coverpkg=\./internal/bucket,\./reservations/\.\.\. \./reservations/\.\.\.$`,
				`(?m)^ok ran -C browser test`, `(?m)^ok ran -C bench test`, `(?m)^ok ran -C deploy/tests test`,
				`(?m)^started cold$`, `\d\d passed, 0 failed\ntests passed`,
			},
		},
		"a package fails": {
			env: []string{"FAILS=./worker"}, code: 1,
			says: []string{`--- FAIL: TestBad \(0.00s\)\n    bad_test.go:7: it is bad\n`, "FAIL: see above"},
			not:  "tests passed",
		},
		"the bench fails": {
			all: true, env: []string{"FAILS=-C bench"}, code: 1, says: []string{"FAIL: go -C bench"}, not: "tests passed",
		},
		"an alert fails": {
			all: true, env: []string{"FAILS=-C deploy"}, code: 1, says: []string{"FAIL: go -C deploy"}, not: "tests passed",
		},
		"it does not build": {
			all: true, env: []string{"FAILS=build -race"}, code: 1, says: []string{"FAIL: go build"}, not: "tests passed",
		},
		"no browser": {
			all: true, env: []string{"CHROMIUM=nothing-of-that-name"}, code: 1,
			says: []string{"nothing-of-that-name is no program", "FAIL: scripts/browser", "-coverpkg"}, not: "ran -C browser",
		},
		"a page fails": {all: true, env: []string{"FAILS=-C browser"}, code: 1, says: []string{"FAIL: go -C browser"}},
		"not covered": {
			all: true, env: []string{"COVERED=0"}, code: 1, says: []string{"FAIL: coverage"}, not: "tests passed",
		},
		"no cold start": {
			all: true, env: []string{"COLD_START=false"}, code: 1, says: []string{"FAIL: false"}, not: "tests passed",
		},
		"a hostile test is missing": {
			all: true, env: []string{"HIDDEN=TestBombs"}, code: 1,
			says: []string{"TestBombs did not run", "FAIL: scripts/test-hostile"}, not: "tests passed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if tc.all {
				args = append(args, "all")
			}
			env := append([]string{"CHROMIUM=bash", "AXE_CORE=axe.js", "COLD_START=echo started cold"}, tc.env...)
			code, out := runWith(t, "scripts/test", args, env, program{"go", fakeGo})
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
