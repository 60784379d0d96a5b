package examples_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

// TestNoInternalTypes fails for a type of a package below internal that a user meets: in an exported name of the root
// package or of the four that it is made of. A user could neither name nor make it.
func TestNoInternalTypes(t *testing.T) {
	t.Parallel()
	night.Only(t, "compiles the packages")
	const root = "github.com/headway-go/headway"
	for _, p := range compiled(t, root, root+"/reservations", root+"/scheduler", root+"/tasks", root+"/worker") {
		for _, name := range p.Scope().Names() {
			obj := p.Scope().Lookup(name)
			if !obj.Exported() {
				continue
			}
			for _, at := range internals(obj) {
				t.Errorf("%s.%s shows %s, which is internal", p.Name(), name, at)
			}
		}
	}
}

// compiled returns the types of packages.
func compiled(t *testing.T, paths ...string) (packages []*types.Package) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, paths...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.FieldsSeq(string(out)) {
		path, file, _ := strings.Cut(line, "=")
		exports[path] = file
	}
	open := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, path := range paths {
		p, err := open.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	return packages
}

// internals are the internal types that a name shows: in its type, in exported fields, and in exported methods.
func internals(obj types.Object) (found []string) {
	seen := map[types.Type]bool{}
	var look func(types.Type)
	fields := func(s *types.Struct) {
		for f := range s.Fields() {
			if f.Exported() {
				look(f.Type())
			}
		}
	}
	look = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			look(t.Rhs())
		case *types.Named:
			if p := t.Obj().Pkg(); p != nil && strings.Contains(p.Path()+"/", "/headway/internal/") {
				found = append(found, t.String())
			}
			for arg := range t.TypeArgs().Types() {
				look(arg)
			}
		case *types.Signature:
			look(t.Params())
			look(t.Results())
		case *types.Tuple:
			for v := range t.Variables() {
				look(v.Type())
			}
		case *types.Struct:
			fields(t)
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				if m.Exported() {
					look(m.Type())
				}
			}
		case *types.Map:
			look(t.Key())
			look(t.Elem())
		case interface{ Elem() types.Type }: // a pointer, slice, array or channel
			look(t.Elem())
		}
	}
	look(obj.Type())
	if named, ok := types.Unalias(obj.Type()).(*types.Named); ok && named.Obj().Pkg() == obj.Pkg() {
		look(named.Underlying())
		for m := range named.Methods() {
			if m.Exported() {
				look(m.Type())
			}
		}
	}
	return found
}
