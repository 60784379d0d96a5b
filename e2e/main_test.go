package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// module is the module of the commands.
const module = "github.com/headway-go/headway/"

// programPlain is the worker that never has the race detector.
const programPlain = "demo"

// programs are the commands built for this run, by name.
var programs = map[string]string{}

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "headway-e2e-*")
	if err == nil {
		err = buildAll(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(folder)
		os.Exit(code)
	}))
}

// buildAll builds the programs. The night sets HEADWAY_E2E_RACE: then workers and provider have the race
// detector, except in the tests that start programPlain.
func buildAll(folder string) error {
	var race []string
	if os.Getenv("HEADWAY_E2E_RACE") != "" {
		race = []string{"-race"}
	}
	for _, b := range []struct {
		name, path string
		flags      []string
	}{
		{"headway", "cmd/headway", race},
		{"provider", "internal/products/provider/cmd/provider", race},
		{programPlain, "cmd/headway", nil},
	} {
		programs[b.name] = filepath.Join(folder, b.name)
		args := append(append([]string{"build"}, b.flags...), "-o", programs[b.name], module+b.path)
		if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", b.path, err, out)
		}
	}
	return nil
}
