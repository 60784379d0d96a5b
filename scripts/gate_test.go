package scripts_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Outside of testing/synctest bubbles, tests of the gate use no clock and start no program. Tests of the night may, and
// so may the folders of processLane. A comment "//gate:ok WHY" excepts its line: a wait whose length decides nothing.
func TestGateDependsOnNoClock(t *testing.T) {
	t.Parallel()
	folders := map[string]*testSource{}
	if err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") || processLane.MatchString(path) {
			return err
		}
		folder := filepath.Dir(path)
		if folders[folder] == nil {
			folders[folder] = &testSource{fset: token.NewFileSet()}
		}
		return folders[folder].add(path, nil)
	}); err != nil || len(folders) == 0 {
		t.Fatal(err, len(folders))
	}
	for _, source := range folders {
		for _, fault := range source.faults() {
			t.Errorf("%s: move it into a bubble, or mark its test with night.Only", fault)
		}
	}
}

// processLane are the folders whose tests start real processes, and the modules that the gate does not test.
var processLane = regexp.MustCompile(`^\.\./(e2e|cmd|bench|browser|conformance|deploy)/`)

// The rule finds a planted fault of each kind.
func TestGateRule(t *testing.T) {
	t.Parallel()
	const (
		test  = "func TestA(t *testing.T) { "
		wait  = "\nfunc wait() { time.Sleep(1) }"
		run   = "\nfunc in(t *testing.T, do func()) { "
		slept = "in(t, func() { time.Sleep(1) }) }"
	)
	for name, tc := range map[string]struct {
		text string
		want string // the call that is found; empty means none
	}{
		"a clock":            {test + "time.Sleep(1) }", "time.Sleep"},
		"a program":          {test + `exec.Command("go") }`, "exec.Command"},
		"a short patience":   {test + "context.WithTimeout(c, 59*time.Second) }", "context.WithTimeout"},
		"a named patience":   {"const p = time.Second\n" + test + "context.WithTimeout(c, p) }", "context.WithTimeout"},
		"a long patience":    {test + "context.WithTimeout(c, 2*time.Minute) }", ""},
		"an exception":       {test + "\n\ttime.Sleep(1) //gate:ok a reason\n}", ""},
		"no reason":          {test + "\n\ttime.Sleep(1) //gate:ok\n}", "time.Sleep"},
		"a bubble":           {test + "synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }", ""},
		"a fleet":            {test + "headwaytest.Run(t, func(*headwaytest.Fleet) { time.Sleep(1) }) }", ""},
		"the night":          {test + `night.Only(t, "slow"); time.Sleep(1) }`, ""},
		"a benchmark":        {"func BenchmarkA(b *testing.B) { time.Sleep(1) }", ""},
		"called":             {test + "wait() }" + wait, "time.Sleep"},
		"called in a bubble": {test + "synctest.Test(t, func(*testing.T) { wait() }) }" + wait, ""},
		"a method":           {test + "use(s{}) }\ntype s struct{}\nfunc (s) Get() { time.Sleep(1) }", "time.Sleep"},
		"a variable":         {test + "use(all) }\nvar all = []func(){wait}" + wait, "time.Sleep"},
		"our bubble": {
			test + slept + run + "synctest.Test(t, func(*testing.T) { do() }) }", "",
		},
		"a bubble of a bubble": {
			test + slept + run + "headwaytest.Run(t, do) }", "",
		},
		"no bubble of ours": {
			test + slept + run + "do(); synctest.Test(t, func(*testing.T) { do() }) }", "time.Sleep",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := testSource{fset: token.NewFileSet()}
			if err := source.add("a_test.go", "package a\n"+tc.text); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(source.faults(), "; ")
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// add parses a file; a nil text means that of the path.
func (s *testSource) add(path string, text any) error {
	file, err := parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.files = append(s.files, file)
	return nil
}

// testSource are the test files of a folder.
type testSource struct {
	fset  *token.FileSet
	files []*ast.File

	named    map[string][]ast.Node // what a name of the package declares; a type has its methods too
	bubbles  map[string]bool       // the functions that run functions given to them in a bubble
	excepted map[string]bool       // lines, as "file:line"
}
