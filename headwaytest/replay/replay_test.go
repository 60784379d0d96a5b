package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

const orders = "./testdata/order"

// replay runs the command, and returns its output.
func replay(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out)
	return out.String(), err
}

// hashes returns the hashes of traces in an output.
func hashes(out string) (found []string) {
	for _, match := range regexp.MustCompile(`\ttrace ([0-9a-f]{16}), 82 lines\n`).FindAllStringSubmatch(out, -1) {
		found = append(found, match[1])
	}
	return found
}

// One seed has one trace, also with another number of processors, with the race detector and with other variables.
// Other seeds have others.
func TestOneSeedOneTrace(t *testing.T) { //nolint:paralleltest // it sets variables
	night.Only(t, "compiles the standard library")
	out, err := replay(t, "-hash", "-seeds", "1-12", orders)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first := hashes(out)
	if len(first) != 12 || len(slices.Compact(slices.Sorted(slices.Values(first)))) != 12 {
		t.Fatalf("12 seeds have the traces %q\n%s", first, out)
	}
	for range 30 {
		t.Setenv("HEADWAY_OTHER_"+strings.Repeat("X", len(os.Environ())), "1")
	}
	for _, args := range [][]string{{}, {"-j", "4"}, {"-race"}, {"-v"}} {
		out, err = replay(t, append(args, "-hash", "-seeds", "1-12", orders)...)
		if err != nil || !slices.Equal(hashes(out), first) {
			t.Errorf("with %q: %v, want the traces %q\n%s", args, err, first, out)
		}
	}
}

// The command that a red seed prints runs it again, and writes its trace.
func TestRedSeed(t *testing.T) {
	t.Parallel()
	night.Only(t, "compiles the standard library")
	out, err := replay(t, "-seeds", "12-14", orders, "-test.short")
	again := "-seed 13 -trace TestOrder-13.trace -run '^TestOrder$' " + orders + " -test.short\n"
	if !errors.Is(err, errRed) || !strings.Contains(out, "order_test.go") || !strings.Contains(out, again) ||
		strings.Count(out, "FAIL\tTestOrder") != 1 || !strings.Contains(out, "1 of 3 failed") {
		t.Fatalf("%v\n%s", err, out)
	}
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, name := range []string{a, b} {
		out, err = replay(t, "-seed", "13", "-trace", name, "-run", "^TestOrder$", orders, "-test.short")
		if !errors.Is(err, errRed) || !strings.Contains(out, name) {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if out, err = replay(t, "-compare", a, b); err != nil || out != "equal: 82 lines\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A test that computes for ever ends, and shows where it is.
func TestBusyLoop(t *testing.T) {
	t.Parallel()
	night.Only(t, "compiles the standard library")
	out, err := replay(t, "-seed", "1", "-timeout", "2s", "./testdata/busy")
	late := strings.Contains(out, "has not ended within 2s")
	if !errors.Is(err, errRed) || !late || !strings.Contains(out, "busy.spin") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The patches are for the version of Go in go.mod.
func TestVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\ngo " + strings.TrimPrefix(goVersion, "go") + "."; !strings.Contains(string(text), want) {
		t.Errorf("go.mod has not %q", want)
	}
}

// A library of another version is an error.
func TestAnotherGo(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	for _, p := range patches {
		name := filepath.Join(src, p.file)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("package other\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writeOverlay(t.TempDir(), src); err == nil || !strings.Contains(err.Error(), "another version") {
		t.Errorf("the error is %v", err)
	}
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list string
		want []uint64
	}{
		{"42", []uint64{42}},
		{"1-3", []uint64{1, 2, 3}},
		{"3,7,20-22", []uint64{3, 7, 20, 21, 22}},
		{"18446744073709551615", []uint64{18446744073709551615}},
		{"3-1", nil},
		{"", nil},
		{"1-", nil},
		{"a", nil},
		{"-1", nil},
		{"1-10000000", nil},
	} {
		got, err := parseSeeds(c.list)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %v, %v, want %v", c.list, got, err, c.want)
		}
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"-seed 1", "no package"},
		{"./x", "one of -seed and -seeds"},
		{"-seed 1 -seeds 2 ./x", "one of -seed and -seeds"},
		{"-seeds 1-3 -trace a ./x", "for one seed"},
		{"-seed 1 -j 0 ./x", "must be 1 or more"},
		{"-compare a", "must be two"},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

// The first difference stands behind its fleet and the last equal lines.
func TestCompare(t *testing.T) {
	t.Parallel()
	head := "0.0 fleet TestA: \n1.0 a\n2.0 b\n3.0 c\n4.0 d\n5.0 e\n"
	for _, c := range []struct {
		name, a, b, want string
		differ           bool
	}{
		{"equal", head, head, "equal: 6 lines\n", false},
		{"empty", "", "", "equal: 0 lines\n", false},
		{
			"another line", head + "6.0 f\n7.0 g\n", head + "6.0 x\n7.0 g\n",
			"--- one\n+++ two\n 0.0 fleet TestA: ...\n 1.0 a\n 2.0 b\n 3.0 c\n 4.0 d\n 5.0 e\n" +
				"@@ line 7: the first that differs @@\n-6.0 f\n-7.0 g\n+6.0 x\n+7.0 g\n",
			true,
		},
		{
			"a longer one", "1.0 a\n", "1.0 a\n2.0 b\n",
			"--- one\n+++ two\n 1.0 a\n@@ line 2: the first that differs @@\n-(the end)\n+2.0 b\n", true,
		},
	} {
		var out bytes.Buffer
		err := compare("one", strings.NewReader(c.a), "two", strings.NewReader(c.b), &out)
		if out.String() != c.want || errors.Is(err, errRed) != c.differ {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, out.String(), c.want)
		}
	}
}

// A word that a shell would change is quoted.
func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"./pkg": "./pkg", "^TestA$": "'^TestA$'", "it's": `'it'\''s'`, "": "''", "a b": "'a b'",
	} {
		if got := quote(word); got != want {
			t.Errorf("%q is %s, want %s", word, got, want)
		}
	}
}
