// Package imports reads what the packages of this module import, without the go command.
package imports

import (
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Module is the path of this module.
const Module = "github.com/headway-go/headway"

// All returns the imports of the programs and packages below root, the folder of this module, by their paths. Test
// files, and modules within this one, are left out.
func All(tb testing.TB, root string) map[string][]string {
	tb.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && left(path, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		folder, name := filepath.Split(path)
		if fits, failed := build.Default.MatchFile(folder, name); failed != nil || !fits {
			return failed
		}
		below, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(Module+"/"+filepath.ToSlash(below), "/.")
		all[pkg], err = add(all[pkg], path)
		return err
	})
	if err != nil || len(all) == 0 {
		tb.Fatalf("read the imports below %s: %d packages, %v", root, len(all), err)
	}
	return all
}

// left says which folders have no packages of this module.
func left(path, name string) bool {
	_, err := os.Stat(filepath.Join(path, "go.mod"))
	return err == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// add adds the imports of a file.
func add(to []string, path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	if to == nil {
		to = []string{}
	}
	for _, i := range file.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(to, imported) {
			to = append(to, imported)
		}
	}
	return to, nil
}
