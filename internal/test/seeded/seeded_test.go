package seeded_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/test/seeded"
)

// The gate draws the same numbers in each run, and the night draws others.
func TestCheck(t *testing.T) {
	t.Parallel()
	draw := func() (drawn []int) {
		seeded.Check(t, func(t *rapid.T) { drawn = append(drawn, rapid.Int().Draw(t, "n")) })
		return drawn
	}
	first, second := draw(), draw()
	if same := slices.Equal(first, second); same != testing.Short() {
		t.Errorf("two runs of one property draw the same numbers: %v", same)
	}
	if testing.Short() && (len(first) != 50 || first[0] != 0 && first[0] == first[1]) {
		t.Errorf("%d checks, want 50: %v", len(first), first)
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	got := slices.Collect(seeded.Range(t, 3))
	if len(got) != 3 || got[1] != got[0]+1 || got[2] != got[0]+2 {
		t.Errorf("%v", got)
	}
	if testing.Short() != (got[0] == 0) {
		t.Errorf("short %v, and the first seed is %d", testing.Short(), got[0])
	}
}

func TestSeedOfTheEnvironment(t *testing.T) {
	t.Setenv(seeded.Variable, "7")
	if got := slices.Collect(seeded.Range(t, uint64(2))); !slices.Equal(got, []uint64{7, 8}) {
		t.Errorf("%v", got)
	}
}

// All property tests use this package: otherwise the gate draws new numbers in each run.
func TestOnlyThisPackageCallsRapid(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || filepath.Base(filepath.Dir(path)) == "seeded":
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "rapid.Check(") {
			t.Errorf("%s calls rapid.Check: call seeded.Check", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
