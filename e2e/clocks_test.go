package e2e_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/night"
)

// skewVariable has the seconds by which the wall clock of a skewed worker is ahead.
const skewVariable = "HEADWAY_E2E_CLOCK_SKEW"

// skewedNow is appended to the file of package time with Now. That package can import no other parser of numbers.
const skewedNow = `
var skew = func() (seconds int64) {
	text, _ := syscall.Getenv("` + skewVariable + `")
	negative := len(text) > 0 && text[0] == '-'
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' { seconds = 10*seconds + int64(c-'0') }
	}
	if negative { return -seconds }
	return seconds
}()
`

// buildSkewed builds the worker with a changed package time. Go does not read the clock through the C library, so
// only a changed time.Now gives one process another clock. The first build compiles the standard library.
func buildSkewed(t *testing.T) (name string) {
	t.Helper()
	file := filepath.Join(goroot(t), "src", "time", "time.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for _, change := range [][2]string{
		{"\t\"math/bits\"\n", "\t\"math/bits\"\n\t\"syscall\"\n"},
		{
			"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n",
			"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += skew\n",
		},
	} {
		if strings.Count(text, change[0]) != 1 {
			t.Fatalf("%s of %s lacks %q: adapt the test", file, runtime.Version(), change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	changed := writeFile(t, "time.go", text+skewedNow)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(t.TempDir(), "skewed")
	args := []string{
		"build", "-overlay", writeFile(t, "overlay.json", string(overlay)), "-o", name, module + "cmd/headway",
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build the worker with another clock: %v\n%s", err, out)
	}
	return name
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("find the standard library: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// One worker's clock is 90 s ahead, and another's 90 s behind. The worker whose clock is ahead forwards scheduled
// tasks early, and takes running tasks from other workers once a minute. The limit is kept.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	night.Only(t, "takes 90 s")
	const tasks = 1500 // more than a minute of the limit
	skewed := buildSkewed(t)
	w := newWorld(t, setting{rate: 20, capacity: 5})
	w.clocksDiffer = true
	w.enqueue(t, smallChats(1, tasks))
	for _, skew := range []string{"0", "90", "-90"} {
		w.startOne(t, skewed, append(w.env(w.redisURL), skewVariable+"="+skew))
	}
	w.awaitCompleted(t, tasks)
	f := w.finish(t)
	if f.tasks != tasks {
		t.Errorf("%d tasks have started, wanted %d", f.tasks, tasks)
	}
	for i, p := range w.workers {
		if warned := strings.Contains(p.log(t), "clock differs from Redis's"); warned != (i > 0) {
			t.Errorf("%s warns of its clock: %t", p.name, warned)
		}
	}
}
