package examples_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

// outside is a program of another module that makes one call by a store of its own.
const outside = `package main

import (
	"context"
	"fmt"
	"time"

	"example.com/outside/ownstore"

	"github.com/headway-go/headway/reservations"
)

func main() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := &ownstore.Store{Now: func() time.Time { return noon }}
	limiter, err := reservations.New(store, []reservations.Limit{
		{Name: "api", Meters: []reservations.Meter{reservations.PerDay("calls", 10)}},
	}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	charge := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"calls": 3}}
	err = limiter.Do(context.Background(), []reservations.Charge{charge},
		func(context.Context) (reservations.Tokens, error) { return reservations.Tokens{"calls": 2}, nil })
	view, _ := limiter.View(context.Background(), "api", "")
	fmt.Print(view.Meters[0].Level, " ", err)
}
`

// A store can be written outside of the module: another one compiles the store of this folder, and makes a call by it.
// Nothing is downloaded.
func TestStoreOfAnotherModule(t *testing.T) {
	t.Parallel()
	night.Only(t, "compiles a program")
	checkout, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire github.com/headway-go/headway v0.0.0\n\n"+
			"replace github.com/headway-go/headway => %q\n", checkout),
		"go.sum": read("../go.sum"), "main.go": outside, "ownstore/store.go": read("ownstore/store.go"),
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "8 <nil>" {
		t.Errorf("%s, %v; want 8 calls left", out, err)
	}
}
