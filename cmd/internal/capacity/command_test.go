package capacity_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/capacity"
	"github.com/headway-go/headway/internal/setup/cli"
)

var update = flag.Bool("update", false, "write testdata again")

const top = "../../.."

// simulate runs `headway simulate` with the file of the repository unless args name another one.
func simulate(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	root := func(env cli.Environment) *cobra.Command {
		c := &cobra.Command{Use: "headway"}
		c.AddCommand(capacity.Commands(env)...)
		return c
	}
	if !strings.Contains(strings.Join(args, " "), "--config") {
		args = append(args, "--config", filepath.Join(top, "headway.yaml"))
	}
	var o, e bytes.Buffer
	code = cli.Run(t.Context(), root, append([]string{"simulate"}, args...), cli.Environment{
		Getenv: func(string) string { return "" }, In: strings.NewReader(in), Out: &o, Err: &e,
	})
	return code, o.String(), e.String()
}

// golden compares an output with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o750), os.WriteFile(file, []byte(got), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != got {
		t.Errorf("%s differs (%v); `go test ./cmd/internal/capacity -update` writes it:\n%s", file, err, got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(top, "examples/capacity/calls.jsonl")
	code, out, errs := simulate(t, "", "--trace", trace)
	if code != cli.ExitOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	golden(t, "table.txt", out)
	larger := filepath.Join(top, "examples/capacity/plan.yaml")
	if code, out, errs = simulate(t, "", "--trace", trace, "--plan", larger); code != cli.ExitOK ||
		!strings.Contains(out, "plan "+larger) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	code, out, errs := simulate(t, "", "--backlog", "100", "--tokens", "1500", "--used", "80%", "--latency", "2s..20s",
		"--flow", "acme=3", "--flow", "globex", "--refuse", "0.05", "--json")
	if code != cli.ExitOK || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(out), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "backlog.json", indented.String())
}

// A batch file has the charges that `headway batch` enqueues it with.
func TestBatch(t *testing.T) {
	t.Parallel()
	code, out, errs := simulate(t, "", "--batch", filepath.Join(top, "examples/godoc.jsonl"), "--latency", "4s", "--json",
		"--compare=false")
	if code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var r struct {
		Calls, Done int
		Scarce      struct{ Bucket, Meter string }
		Meters      []struct{ Tokens float64 }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Calls != 400 || r.Done != 400 || r.Scarce.Bucket != "openai" || r.Scarce.Meter != "tokens" ||
		r.Meters[0].Tokens < 100_000 {
		t.Errorf("%+v", r)
	}
}

func TestStandardInput(t *testing.T) {
	t.Parallel()
	code, out, errs := simulate(t, `{"at": 0, "tokens": 5}`+"\n"+`{"at": 60, "tokens": 5, "latency": 1}`, "--trace", "-")
	if code != cli.ExitOK || !strings.Contains(out, "done after   1m1s, 1s after the last call arrived") ||
		!strings.Contains(out, "No meter was scarce.") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "day.svg")
	code, _, errs := simulate(t, "", "--backlog", "100", "--tokens", "1500", "--chart", file)
	text, err := os.ReadFile(file)
	if code != cli.ExitOK || err != nil {
		t.Fatalf("exit %d: %s %v", code, errs, err)
	}
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err = d.Token(); err != nil {
			break
		}
	}
	if !errors.Is(err, io.EOF) || !bytes.Contains(text, []byte("openai tokens")) {
		t.Errorf("%v: %.200s", err, text)
	}
	code, out, errs := simulate(t, "", "--backlog", "1", "--tokens", "1", "--chart", "-")
	if code != cli.ExitOK || !strings.HasPrefix(out, "<svg ") || strings.Contains(out, "WAIT") {
		t.Errorf("exit %d: %.200s %s", code, out, errs)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	two := file("two.yaml", "limits: {a: {meters: {requests: 1/s}}, b: {meters: {searches: 1/s}}}")
	empty := file("empty.jsonl", "")
	faulty := file("faulty.jsonl", "{\"at\": 1, \"tokens\": 5}\n{\"at\": 1, \"limit\": \"opena\"}\n")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"nothing":       {nil, "nothing to simulate: say how calls arrive by --arrive 9/s"},
		"two sources":   {[]string{"--arrive", "9/s", "--trace", "x"}, "exclude each other: name one source of calls"},
		"zero rate":     {[]string{"--arrive", "0/s", "--tokens", "1"}, "--arrive 0/s must be above zero, e.g. 9/s"},
		"no rate":       {[]string{"--arrive", "9"}, `--arrive: "9" must be a number, a slash and a period: 9/s a second`},
		"negative time": {[]string{"--arrive", "9/s", "--for", "-1s"}, "--for -1s must be above zero"},
		"no tokens":     {[]string{"--arrive", "9/s"}, `--tokens: limit "openai" has the meter "tokens"`},
		"bad tokens": {
			[]string{"--backlog", "9", "--tokens", "many"}, `--tokens: "many" must be a number or a range, e.g. 1500`,
		},
		"bad range":    {[]string{"--backlog", "9", "--tokens", "9..1"}, `--tokens: "9..1" must be a number or a range`},
		"part of none": {[]string{"--backlog", "9", "--tokens", "80%"}, `--tokens: "80%" must be a number or a range`},
		"bad used": {
			[]string{"--backlog", "9", "--tokens", "9", "--used", "50..80%"}, `--used: "50..80%" must be a number or a range`,
		},
		"bad latency": {
			[]string{"--backlog", "9", "--tokens", "9", "--latency", "5"}, `--latency: "5" must be a time or a range, e.g. 5s`,
		},
		"bad charge": {[]string{"--backlog", "9", "--charge", "x"}, `--charge: "x" must be a meter and a number`},
		"bad flow":   {[]string{"--backlog", "9", "--flow", "a=0"}, `--flow: "a=0" must be a name, or a name and a share`},
		"bad moment": {[]string{"--backlog", "9", "--tokens", "9", "--from", "now"}, `--from: "now" must look like`},
		"unknown limit": {
			[]string{"--backlog", "9", "--tokens", "9", "--limit", "opena"}, `--limit: "opena": reservations: unknown limit`,
		},
		"above the capacity": {
			[]string{"--backlog", "9", "--tokens", "30000"},
			`call 1: tokens: 30000 is above the capacity of limit "openai", 20000`,
		},
		"no limit": {[]string{"--backlog", "9", "--config", two}, "--limit is required: " + two + " has 2 limits"},
		"another meter": {
			[]string{"--backlog", "9", "--limit", "b", "--config", two},
			`--charge: meter "searches" of limit "b": say how much of it a call takes, e.g. searches=1`,
		},
		"empty trace": {[]string{"--trace", empty}, "--trace " + empty + ": no calls to simulate"},
		"no trace":    {[]string{"--trace", "/nowhere/x"}, "no such file"},
		"a bad trace": {[]string{"--trace", faulty}, `line 2: limit: "opena"`},
		"empty batch": {[]string{"--batch", empty}, "the file has no lines"},
		"a bad batch": {[]string{"--batch", faulty}, "2 of 2 lines are faulty"},
		"refuse": {
			[]string{"--backlog", "9", "--tokens", "9", "--refuse", "1"}, "refuse: 1 must be from 0 to 0.9",
		},
		"priority": {
			[]string{"--backlog", "9", "--limit", "a:", "--config", two}, "--limit a:: a key must follow the colon",
		},
		"chart and json": {
			[]string{"--backlog", "9", "--chart", "-", "--json"}, "--chart - and --json both write to standard output",
		},
		"chart in a folder": {[]string{"--backlog", "9", "--chart", folder}, "is a folder"},
	} {
		code, out, errs := simulate(t, "", tc.args...)
		if code != cli.ExitUsage || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: exit %d, %q, want %q", name, code, errs, tc.want)
		}
	}
}

// A plan that can't serve the calls is no fault: its line says why.
func TestPlanThatIsTooSmall(t *testing.T) {
	t.Parallel()
	small := filepath.Join(t.TempDir(), "small.yaml")
	text := "limits: {openai: {meters: {requests: 10/s, tokens: {rate: 1000/s, capacity: 100}}}}"
	if err := os.WriteFile(small, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := simulate(t, "", "--backlog", "9", "--tokens", "1500", "--plan", small, "--compare=false")
	if code != cli.ExitOK || !strings.Contains(out, "not possible: call 1: tokens: 1500 is above the capacity") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
