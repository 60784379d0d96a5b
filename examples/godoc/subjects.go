package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// leastDoc is the shortest documentation of a type for a request, in bytes.
const leastDoc = 120

// subject is the subject of a request: a package or one of its types.
type subject struct {
	id   string // e.g. encoding-json or encoding-json.Decoder
	name string // for people: package encoding/json, or type json.Decoder
	doc  string
	kind kind
}

type kind string

const (
	kindPackage kind = "package"
	kindType    kind = "type"
)

// dice returns a number that depends only on the subject's ID and the purpose.
func (s subject) dice(purpose string) uint64 {
	sum := sha256.Sum256([]byte(purpose + "/" + s.id))
	return binary.BigEndian.Uint64(sum[:])
}

// choose returns n subjects, in order: all packages first, then types by dice.
func choose(all []subject, n int) []subject {
	chosen := slices.Clone(all)
	slices.SortFunc(chosen, func(a, b subject) int {
		if a.kind != b.kind {
			return cmp.Compare(a.kind, b.kind) // "package" is before "type"
		}
		return cmp.Compare(a.dice("choose"), b.dice("choose"))
	})
	chosen = chosen[:min(n, len(chosen))]
	slices.SortFunc(chosen, func(a, b subject) int { return cmp.Compare(a.id, b.id) })
	return chosen
}

// subjectsOf reads all public packages below src, as built for linux/amd64 on any machine.
func subjectsOf(src string) ([]subject, error) {
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled, ctx.BuildTags, ctx.ToolTags = "linux", "amd64", true, nil, nil
	var subjects []subject
	err := filepath.WalkDir(src, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || dir == src {
			return err
		}
		switch entry.Name() {
		case "internal", "vendor", "testdata", "cmd", "builtin":
			return fs.SkipDir
		}
		rel, err := filepath.Rel(src, dir)
		if err != nil {
			return err
		}
		found, err := subjectsIn(&ctx, dir, filepath.ToSlash(rel))
		subjects = append(subjects, found...)
		return err
	})
	return subjects, err
}

// subjectsIn reads one package. A folder without Go files has no subjects.
func subjectsIn(ctx *build.Context, dir, importPath string) ([]subject, error) {
	listed, err := ctx.ImportDir(dir, 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(slices.Values(slices.Concat(listed.GoFiles, listed.CgoFiles)))
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		var file *ast.File
		file, err = parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		return nil, fmt.Errorf("document %s: %w", importPath, err)
	}
	id := strings.ReplaceAll(importPath, "/", "-")
	subjects := []subject{{
		id: id, name: "package " + importPath, kind: kindPackage, doc: packageDoc(fset, p),
	}}
	for _, t := range p.Types {
		if len(t.Doc) >= leastDoc {
			subjects = append(subjects, subject{
				id: id + "." + t.Name, name: "type " + path.Base(p.Name) + "." + t.Name, kind: kindType,
				doc: typeDoc(fset, t),
			})
		}
	}
	return subjects, nil
}

// packageDoc returns a package's comment and the list of its functions.
func packageDoc(fset *token.FileSet, p *doc.Package) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(p.Doc))
	if len(p.Funcs) > 0 {
		b.WriteString("\n\nIts functions:\n")
		functions(&b, fset, p.Funcs)
	}
	return b.String()
}

// typeDoc returns a type's comment and the list of its constructors and methods.
func typeDoc(fset *token.FileSet, t *doc.Type) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(t.Doc))
	if len(t.Funcs)+len(t.Methods) > 0 {
		b.WriteString("\n\nIts functions and methods:\n")
		functions(&b, fset, t.Funcs)
		functions(&b, fset, t.Methods)
	}
	return b.String()
}

// functions writes the signature and the first sentence of each.
func functions(b *strings.Builder, fset *token.FileSet, funcs []*doc.Func) {
	for _, f := range funcs {
		var signature bytes.Buffer
		decl := &ast.FuncDecl{Recv: f.Decl.Recv, Name: f.Decl.Name, Type: f.Decl.Type}
		if err := printer.Fprint(&signature, fset, decl); err != nil {
			continue // The parser makes no such syntax tree.
		}
		sentence, _, _ := strings.Cut(f.Doc, ".\n")
		sentence, _, _ = strings.Cut(sentence, ". ")
		fmt.Fprintf(b, "\n%s\n\t%s\n", signature.Bytes(), strings.Join(strings.Fields(sentence), " "))
	}
}
