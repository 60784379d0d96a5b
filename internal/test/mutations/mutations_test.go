package mutations_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

// mutation replaces a text of the production code by a faulty one.
type mutation struct {
	name, file, right, wrong string

	seen string // what the test says of it
	test string // package and name
}

const inFleet = "internal/test/mutations TestFleet"

const (
	exceeded = "exceeded the limit or ignored"
	lost     = "is lost or ran twice"
	place    = "lost its place"
	unused   = "the limit is not used"
)

func mutations() []mutation {
	return []mutation{
		{
			"limit 1 % too fast", "internal/bucket/bucket.go", "came := b.comes(s.Filling, to)",
			"came := 1.01 * b.comes(s.Filling, to)",
			exceeded, inFleet,
		},
		{
			"capacity one too high", "reservations/meter.go", "Capacity: m.Cap(), Headroom", "Capacity: m.Cap() + 1, Headroom",
			exceeded, inFleet,
		},
		{
			"promoted task lost", "internal/line/asynqdb/lua/wake.lua", `redis.call("RPUSH", KEYS[1], others[i])`,
			`if i % 50 ~= 1 then redis.call("RPUSH", KEYS[1], others[i]) end`, lost, inFleet,
		},
		{
			"promoted task delivered twice", "internal/line/asynqdb/lua/wake.lua", `redis.call("RPUSH", KEYS[1], others[i])`,
			`redis.call("RPUSH", KEYS[1], others[i], others[i])`, lost, inFleet,
		},
		{
			"no place kept", "internal/line/waitlist/lua/lanes.lua", `"ZRANGE", list`, `"ZREVRANGE", list`, place, inFleet,
		},
		{
			"refusal with a time ignored", "worker/refusal.go", "all, err := d.start.Refuse(soon, refusal)",
			"refusal.After = time.Millisecond\nall, err := d.start.Refuse(soon, refusal)", exceeded, inFleet,
		},
		{
			"settlement lost", "reservations/grantsettle.go", "if len(claims) == 0 {", "if len(claims) >= 0 {", unused,
			inFleet,
		},
		{
			"dispatcher asleep", "internal/line/dispatcher/promote.go", "if len(look.Due) == 0 {", "if len(look.Due) >= 0 {",
			unused, inFleet,
		},
		{
			"reservation of a withdrawn task kept", "internal/line/dispatcher/leave.go", "h.Reserved {", "!h.Reserved {",
			"another program may call in", "internal/test/fleets TestNothingIsReservedForCancelledTasks",
		},
		{
			"place of a task that left kept", "internal/line/waitlist/lua/leave.lua", "withdraw(task)", "nil",
			"keys", "internal/line/waitlist TestLeaveRemovesEveryTrace",
		},
		{
			"tick enqueued twice", "internal/line/asynqdb/lua/guard.lua",
			"tonumber(last) >= tonumber(tick)", "tonumber(last) < 0",
			"tick 0 after tick 0", "internal/line/asynqdb TestATickIsEnqueuedOnce",
		},
	}
}

// repository is its path from this package.
const repository = "../../.."

// Each fault can be planted: its text is in its file.
func TestMutationsFit(t *testing.T) {
	t.Parallel()
	for _, m := range mutations() {
		text, err := os.ReadFile(filepath.Join(repository, m.file))
		if err != nil || !strings.Contains(string(text), m.right) {
			t.Errorf("%s: %q is not in it: the table needs another mutation: %v", m.file, m.right, err)
		}
	}
}

// A test sees each planted fault and names it: a fleet in virtual time, unless the table names another test.
func TestEachMutationIsSeen(t *testing.T) {
	t.Parallel()
	night.Only(t, "builds the tests eleven times")
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(root, m.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			scratch := t.TempDir()
			mutated, overlay := filepath.Join(scratch, "mutated"), filepath.Join(scratch, "overlay.json")
			write(t, mutated, strings.ReplaceAll(string(text), m.right, m.wrong))
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
			if err != nil {
				t.Fatal(err)
			}
			write(t, overlay, string(replace))
			folder, test, _ := strings.Cut(m.test, " ")
			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-overlay", overlay,
				"-run", "^"+test+"$", "./"+folder)
			cmd.Dir = root
			output, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(output), m.seen) {
				t.Errorf("want a red test that says %q: %v\n%s", m.seen, err, output)
			}
			for line := range strings.Lines(string(output)) {
				if strings.Contains(line, "_test.go:") {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
