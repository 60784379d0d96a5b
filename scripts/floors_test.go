package scripts_test

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/imports"
)

// floor is a line of the picture in docs/architecture.md: its name, and the folders of its packages.
type floor struct {
	name    string
	folders []string
}

// has reports whether a package of the module is on the floor. A folder with a star has all packages below it.
func (f floor) has(pkg string) bool {
	for _, folder := range f.folders {
		below, all := strings.CutSuffix(folder, "/*")
		if pkg == folder || all && strings.HasPrefix(pkg, below+"/") {
			return true
		}
	}
	return false
}

// Each package is on one floor of the picture, and imports packages of its own floor and of floors below. Each package
// below internal is described under the picture.
func TestFloors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)## Packages.*?```text\n(.*?)```(.*?)\n## ").FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("docs/architecture.md has no picture of the packages")
	}
	var floors []floor
	for line := range strings.Lines(found[1]) {
		words := strings.Fields(line)
		floors = append(floors, floor{words[0], words[1:]})
	}
	importing := packages(t)
	of := func(pkg string) int { return slices.IndexFunc(floors, func(f floor) bool { return f.has(pkg) }) }
	used := map[string]bool{}
	for pkg, others := range importing {
		own := of(pkg)
		if own < 0 {
			t.Errorf("%s is on no floor of docs/architecture.md", pkg)
			continue
		}
		used[floors[own].name] = true
		for _, other := range others {
			if at := of(other); at >= 0 && at < own {
				t.Errorf("%s (%s) imports %s (%s), which is on a higher floor", pkg, floors[own].name, other, floors[at].name)
			}
		}
		described := strings.Contains(found[2], "`"+path.Base(pkg)+"`") || strings.Contains(found[2], "`"+pkg+"`")
		if strings.HasPrefix(pkg, "internal/") && !described {
			t.Errorf("docs/architecture.md does not describe %s", pkg)
		}
	}
	for _, f := range floors {
		if !used[f.name] {
			t.Errorf("floor %s has no packages", f.name)
		}
	}
}

// packages are the packages of the module that programs import, with what they import of it. Tests and their support
// stand on no floor.
func packages(t *testing.T) map[string][]string {
	t.Helper()
	short := func(pkg string) (string, bool) {
		rest, ours := strings.CutPrefix(pkg, imports.Module)
		if rest == "" {
			return ".", ours
		}
		return strings.TrimPrefix(rest, "/"), ours
	}
	support := regexp.MustCompile(`^(e2e|scripts|examples(/.*)?|internal/test/.*|.*/(storetest|documentstest|night))$`)
	all := map[string][]string{}
	for pkg, imported := range imports.All(t, "..") {
		name, _ := short(pkg)
		if support.MatchString(name) {
			continue
		}
		all[name] = nil
		for _, i := range imported {
			if other, ours := short(i); ours {
				all[name] = append(all[name], other)
			}
		}
	}
	return all
}
