package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

// Init writes the headway.yaml of the repository, once.
func TestInit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	code, out, errs := command(t, nil, "init", "--config", file)
	if code != cli.ExitOK || !strings.Contains(out, "is written") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	want, err := os.ReadFile("../../../headway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, failed := os.ReadFile(file); failed != nil || string(got) != string(want) {
		t.Errorf("%v: init.yaml differs from headway.yaml: copy it", failed)
	}
	if _, err = config.Load(file); err != nil {
		t.Error(err)
	}
	code, _, errs = command(t, nil, "init", "--config", file)
	if code != cli.ExitUsage || !strings.Contains(errs, "exists") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
