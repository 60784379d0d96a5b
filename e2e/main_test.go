package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	headway "github.com/headway-go/headway/cmd/program"
	provider "github.com/headway-go/headway/internal/products/provider/program"
)

// module is the module of the commands.
const module = "github.com/headway-go/headway/"

// programPlain is the worker that never has the race detector.
const programPlain = "demo"

// programVariable names the program as which this binary runs.
const programVariable = "HEADWAY_E2E_PROGRAM"

// programs are the files of the programs, by name.
var programs = map[string]string{}

func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "":
		os.Exit(test(m))
	case "provider":
		os.Exit(provider.Main())
	default:
		os.Exit(headway.Main())
	}
}

// test runs the tests. This binary is all programs, so that nothing is compiled for them. The night sets
// HEADWAY_E2E_RACE: then workers and provider have the race detector, except in the tests that start programPlain.
func test(m *testing.M) (code int) {
	own, err := os.Executable()
	if err == nil && os.Getenv("HEADWAY_E2E_RACE") != "" {
		var folder string
		if folder, err = os.MkdirTemp("", "headway-e2e-*"); err == nil {
			defer func() { _ = os.RemoveAll(folder) }()
			err = buildRace(folder)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	for _, name := range []string{"headway", "provider", programPlain} {
		if programs[name] == "" {
			programs[name] = own
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(result int) { code = result }))
	return code
}

// buildRace builds the programs with the race detector.
func buildRace(folder string) error {
	for name, path := range map[string]string{
		"headway": "cmd/headway", "provider": "internal/products/provider/cmd/provider",
	} {
		programs[name] = filepath.Join(folder, name)
		args := []string{"build", "-race", "-o", programs[name], module + path}
		if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", path, err, out)
		}
	}
	return nil
}
