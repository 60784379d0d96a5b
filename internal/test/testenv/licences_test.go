package testenv_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

// The image contains a licence of each module of the binaries.
func TestLicences(t *testing.T) {
	t.Parallel()
	night.Only(t, "calls the go command")
	run := func(name string, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = root
		text, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v %s", name, err, text)
		}
		return string(text)
	}
	text := run("scripts/licences")
	modules := strings.Fields(
		run("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/headway"))
	if len(modules) == 0 || !strings.Contains(text, "Go and its standard library") ||
		!strings.Contains(text, "The Go Authors") {
		t.Errorf("%d modules, and Go is missing", len(modules))
	}
	for _, module := range modules {
		if !strings.Contains(text, "\n"+module+" v") {
			t.Errorf("%s has no licence", module)
		}
	}
}
