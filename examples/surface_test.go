package examples_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSurfaceIsDocumented fails for an exported function, method or type of a public package that users see nowhere.
// They see runnable examples, programs of this folder, and code in README and docs. Methods that libraries call, as
// Error, do not count.
func TestSurfaceIsDocumented(t *testing.T) {
	t.Parallel()
	text := shown(t)
	var missing []string
	check := func(owner, name string) {
		if called := ast.IsExported(owner) && text[name+"("]; !called && !text[owner+"."+name] {
			missing = append(missing, owner+"."+name)
		}
	}
	for _, dir := range publicPackages(t) {
		p := documented(t, dir)
		for _, typ := range p.Types {
			check(p.Name, typ.Name)
			p.Funcs = append(p.Funcs, typ.Funcs...)
			for _, m := range typ.Methods {
				if !slices.Contains(calledByLibraries, m.Name) {
					check(typ.Name, m.Name)
				}
			}
		}
		for _, f := range p.Funcs {
			check(p.Name, f.Name)
		}
	}
	for _, name := range missing {
		t.Errorf("%s is in no example and on no page of the docs: name it in docs/go.md", name)
	}
}

// surfaceMost is how many exported names a user of the root package and of the four that it is made of meets. It only
// shrinks: see docs/decisions/0020-public-names.md.
const surfaceMost = 202

// TestSurfaceOnlyShrinks counts the constants, variables, functions, types and methods of these packages. Methods that
// libraries call do not count.
func TestSurfaceOnlyShrinks(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, dir := range []string{"..", "../reservations", "../scheduler", "../tasks", "../worker"} {
		p := documented(t, dir)
		n := len(p.Funcs) + values(p.Consts) + values(p.Vars)
		for _, typ := range p.Types {
			n += 1 + len(typ.Funcs) + values(typ.Consts) + values(typ.Vars)
			for _, m := range typ.Methods {
				if !slices.Contains(calledByLibraries, m.Name) {
					n++
				}
			}
		}
		t.Logf("%s has %d names", p.Name, n)
		sum += n
	}
	if sum > surfaceMost {
		t.Errorf("%d public names, more than %d: what only Headway uses belongs inside (package inside)", sum, surfaceMost)
	}
	if sum < surfaceMost {
		t.Errorf("%d public names are fewer than %d: lower surfaceMost", sum, surfaceMost)
	}
}

// values is the number of exported constants or variables.
func values(groups []*doc.Value) (n int) {
	for _, g := range groups {
		for _, name := range g.Names {
			if ast.IsExported(name) {
				n++
			}
		}
	}
	return n
}

// calledByLibraries are methods that implement interfaces of libraries: no reader looks for them.
var calledByLibraries = []string{"Error", "Is", "Unwrap", "Equal", "String", "MarshalJSON", "TaskType"}

// shown are the names in the code that users see: in examples, programs and pages. A name has its package or type, as
// "worker.New", or is that of a called method, as "Stop(".
func shown(t *testing.T) map[string]bool {
	t.Helper()
	var all strings.Builder
	for _, name := range programs(t) {
		all.WriteString(flat(t, name))
	}
	span := regexp.MustCompile("`[^`]+`")
	for _, page := range files(t, "../README.md", "../docs/*.md") {
		for i, part := range strings.Split(flat(t, page), "```") {
			if i%2 == 0 {
				part = strings.Join(span.FindAllString(part, -1), "\n")
			}
			all.WriteString(part)
		}
	}
	names := map[string]bool{}
	for _, chain := range regexp.MustCompile(`\w+(\.\w+)+\(?`).FindAllString(all.String(), -1) {
		words := strings.Split(chain, ".")
		for i, word := range words[1:] {
			names[words[i]+"."+strings.TrimSuffix(word, "(")], names[word] = true, true
		}
	}
	return names
}

// publicPackages returns the folders of the packages that other modules can import.
func publicPackages(t *testing.T) (dirs []string) {
	t.Helper()
	hidden := []string{"internal", "cmd", "bench", "browser", "deploy", "e2e", "examples", "testdata", "docs", "scripts"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && path != ".." &&
			(slices.Contains(hidden, d.Name()) || strings.HasPrefix(d.Name(), ".")) {
			return fs.SkipDir
		}
		if dir := filepath.Dir(path); strings.HasSuffix(path, ".go") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return err
	})
	if err != nil || len(dirs) < 8 {
		t.Fatal(dirs, err)
	}
	return dirs
}

// documented returns the exported names of a package.
func documented(t *testing.T, dir string) *doc.Package {
	t.Helper()
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files(t, dir+"/*.go") {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			parsed = append(parsed, f)
		}
	}
	p, err := doc.NewFromFiles(fset, parsed, strings.TrimPrefix(dir, "../"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
