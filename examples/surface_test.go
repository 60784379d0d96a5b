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
				if !slices.Contains([]string{"Error", "Is", "Unwrap", "String", "MarshalJSON", "TaskType"}, m.Name) {
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

// shown are the names in the code that users see: in examples, programs and pages. A name has its package or type, as
// "worker.New", or is that of a called method, as "Stop(".
func shown(t *testing.T) map[string]bool {
	t.Helper()
	var all strings.Builder
	for _, name := range files(t, "*/main.go", "../*/example_*_test.go", "../*/*/example_*_test.go") {
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
