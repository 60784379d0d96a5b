package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// goVersion is the version of Go whose library the patches are for, as in go.mod.
const goVersion = "go1.26"

// runtimeFile is the new file of package runtime.
//
//go:embed runtime.go.txt
var runtimeFile string

// patch replaces a text in a file of Go's library.
type patch struct{ file, old, new string }

// patches are all changes. Each old text must be in its file exactly once.
var patches = []patch{ //nolint:gochecknoglobals // a constant
	// All random numbers come from the seed. The start of the program draws an unknown number of them.
	{"runtime/rand.go", "\tglobalRand.state.Init(*seed)\n", "\treplayInit(seed)\n\tglobalRand.state.Init(*seed)\n"},
	{"runtime/rand.go", "mp.cheaprand = rand()", "mp.cheaprand = bootstrapRand()"},
	{"runtime/rand.go", "c := &mp.chacha8", "c := &replayM(mp).chacha8"},
	{"runtime/rand.go", "mp := getg().m\n\t// Implement wyrand", "mp := replayM(getg().m)\n\t// Implement wyrand"},
	{
		"crypto/internal/sysrand/rand.go", "var testingOnlyFailRead bool\n",
		"var testingOnlyFailRead bool\n\n//go:linkname runtime_rand runtime.rand\nfunc runtime_rand() uint64\n",
	},
	{
		"crypto/internal/sysrand/rand.go", "func Read(b []byte) {\n",
		"func Read(b []byte) {\n\tif !testingOnlyFailRead {\n" +
			"\t\tfor i := range b {\n\t\t\tb[i] = byte(runtime_rand())\n\t\t}\n\t\treturn\n\t}\n",
	},

	// The seed draws the order of goroutines, cases of select, timers and maps.
	{
		"runtime/proc.go", "\t\tatomic.StoreRel(&pp.runqtail, t+1) //",
		"\t\treplayPlace(pp, h, t)\n\t\tatomic.StoreRel(&pp.runqtail, t+1) //",
	},
	{"runtime/proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = false"},
	{"runtime/select.go", "cheaprandn(uint32(norder + 1))", "replayRandn(uint32(norder + 1))"},
	{"runtime/time.go", "t.rand = cheaprand()", "t.rand = replayRandn(1 << 31)"},
	{
		"runtime/rand.go", "func maps_rand() uint64 {\n",
		"func maps_rand() uint64 {\n\tif replaying {\n\t\treturn replayMap()\n\t}\n",
	},

	// The real time decides nothing: no preemption, no scavenger, no handing over of mutexes, no timers in a bubble.
	{"runtime/proc.go", `const haveSysmon = GOARCH != "wasm"`, "const haveSysmon = false"},
	{
		"runtime/mgc.go", "\tgo bgscavenge(c)\n",
		"\tif replaying {\n\t\tc <- 1\n\t} else {\n\t\tgo bgscavenge(c)\n\t}\n",
	},
	{
		"runtime/sema.go", "func internal_sync_nanotime() int64 {\n",
		"func internal_sync_nanotime() int64 {\n\tif replaying {\n\t\treturn replayTime()\n\t}\n",
	},
	{"runtime/proc.go", "now, pollUntil, _ := pp.timers.check(0, nil)", "now, pollUntil, _ := replayTimers(pp)"},

	// The heap is at the same address with the race detector, which does not move it.
	{"runtime/malloc.go", "randomizeHeapBase = goexperiment.", "randomizeHeapBase = false && goexperiment."},

	// A context ends its children in the order in which they were made, not in that of their addresses.
	{
		"context/context.go", "\tchildren map[canceler]struct{} //",
		"\tmade     uint64\n\tchildren map[canceler]uint64 //",
	},
	{"context/context.go", "make(map[canceler]struct{})", "make(map[canceler]uint64)"},
	{
		"context/context.go", "p.children[child] = struct{}{}",
		"p.made++\n\t\t\tp.children[child] = p.made",
	},
	{
		"context/context.go", "for child := range c.children {",
		"for _, child := range inOrder(c.children) {",
	},
	{
		"context/context.go", "// WithoutCancel returns", "func inOrder(children map[canceler]uint64) (all []canceler) {\n" +
			"\tfor c, n := range children {\n\t\ti := len(all)\n\t\tall = append(all, c)\n" +
			"\t\tfor ; i > 0 && children[all[i-1]] > n; i-- {\n\t\t\tall[i] = all[i-1]\n\t\t}\n" +
			"\t\tall[i] = c\n\t}\n\treturn all\n}\n\n// WithoutCancel returns",
	},

	// The race detector draws no random numbers: with it, sync.Pool would drop one object of four.
	{"sync/pool.go", "if runtime_randn(4) == 0 {", "if false {"},

	// While packages are initialized, main has a thread to itself, and other goroutines start sooner or later.
	{
		"runtime/proc.go", "\tlockOSThread()\n\n\tif mp",
		"\tif !replaying {\n\t\tlockOSThread()\n\t}\n\n\tif mp",
	},
	{
		"runtime/proc.go", "needUnlock = false\n\tunlockOSThread()\n",
		"needUnlock = false\n\tif !replaying {\n\t\tunlockOSThread()\n\t}\n\treplayBegin()\n",
	},

	// A bubble depends on nothing before it, and collects garbage while all of its goroutines wait.
	{
		"runtime/synctest.go", "func synctestRun(f func()) {\n",
		"func synctestRun(f func()) {\n\treplayEnter()\n\tdefer replayLeave()\n",
	},
	{
		"runtime/synctest.go", "\t\tgopark(synctestidle_c, nil, waitReasonSynctestRun, traceBlockSynctest, 0)\n",
		"\t\tgopark(synctestidle_c, nil, waitReasonSynctestRun, traceBlockSynctest, 0)\n\t\treplayQuiet()\n",
	},

	// All machines and processes are alike.
	{"runtime/debug.go", "return int(numCPUStartup)", "if replaying {\n\t\treturn 4\n\t}\n\treturn int(numCPUStartup)"},
	{"os/exec.go", "func Getpid() int { return syscall.Getpid() }", "func Getpid() int { return 1 }"},
	{"os/sys.go", "\treturn hostname()\n", "\treturn \"replay\", nil\n"},
}

// writeOverlay writes the changed files of the library in src to a folder, and returns the name of their list, for
// go build -overlay.
func writeOverlay(dir, src string) (string, error) {
	texts := map[string]string{"runtime/replay.go": runtimeFile}
	for _, p := range patches {
		text, found := texts[p.file]
		if !found {
			b, err := os.ReadFile(filepath.Join(src, p.file)) //nolint:gosec // Go's library
			if err != nil {
				return "", fmt.Errorf("read Go's library: %w", err)
			}
			text = string(b)
		}
		if n := strings.Count(text, p.old); n != 1 {
			return "", fmt.Errorf("%s of this Go has %q %d times, must be once: the patches of overlay.go are for another "+
				"version", p.file, p.old, n)
		}
		texts[p.file] = strings.Replace(text, p.old, p.new, 1)
	}
	list := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range texts {
		name := filepath.Join(dir, strings.ReplaceAll(file, "/", "_")+".txt")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write the overlay: %w", err)
		}
		list.Replace[filepath.Join(src, file)] = name
	}
	b, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err = os.WriteFile(name, b, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return name, nil
}
