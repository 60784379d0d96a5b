package config_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/config"
)

// bombs are small files for which the parser needs much memory or time.
func bombs() map[string]string {
	var steps strings.Builder
	for i := range 1000 {
		steps.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9))
	}
	text, most := strings.Repeat("x", 30_000), strings.Repeat("x", 1000)
	var keys, fields, aliases strings.Builder
	aliases.WriteString("a: &a " + text + "\nlimits:\n")
	for i := range 4900 {
		fmt.Fprintf(&keys, "k%d:\n", i)
		fmt.Fprintf(&fields, "k%d: 1,", i)
		fmt.Fprintf(&aliases, " k%d: *a\n", i)
	}
	return map[string]string{
		"different keys": keys.String(), "different fields": "limits: {" + text + ": {" + fields.String()[:20_000] + "k: 1}}",
		"fields of a long name": "limits: {" + most + ": {" + fields.String()[:20_000] + "k: 1}}",
		"aliases of a text":     "a: &a " + most + "\nlimits: [" + strings.Repeat("*a,", 200) + "]",
		"a long text":           aliases.String()[:60_000],
		"a long text in a list": "a: &a " + text + "\nlimits: [" + strings.Repeat("*a,", 3000) + "]",
		"double quotes":         strings.Repeat(`"`, 60_000), "stars": strings.Repeat("*a ", 20_000),
		"few stars": strings.Repeat("*a ", 4900),
		"commas":    "[" + strings.Repeat("a,", 4900) + "]", "maps": "[" + strings.Repeat("{},", 3300) + "]",
		"entries":  strings.Repeat("-\n", 9900),
		"brackets": strings.Repeat("[", 100_000), "braces": strings.Repeat("{a: ", 50_000),
		"closed": strings.Repeat("[", 40) + strings.Repeat("]", 40),
		"dashes": strings.Repeat("- ", 50_000), "keys": strings.Repeat("? ", 50_000), "steps": steps.String(),
		"laughs": laughs.String(),
		"tags":   strings.Repeat("!!a ", 50_000), "anchors": strings.Repeat("&a ", 50_000),
		"colons": strings.Repeat("a: ", 50_000),
		"size":   "a: " + strings.Repeat("x", 1<<20), "lines": strings.Repeat("x\n", 100_000),
		"quotes":  strings.Repeat("'", 100_001),
		"aliases": "a: &a 1\nlimits: [" + strings.Repeat("*a,", 80_000) + "]",
	}
}

// A bomb is refused with a short text and little memory, even within the bounds of size.
func TestBombs(t *testing.T) { //nolint:paralleltest // counts allocations of the process
	for name, text := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := config.Parse([]byte(text))
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 64<<10 {
			t.Errorf("%s: %.200v", name, err)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 250 {
			t.Errorf("%s took %d MB", name, mb)
		}
	}
	if _, err := config.Load("/dev/zero"); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a file without an end: %v", err)
	}
}

// Large settings are far below the bounds.
func TestLargeSettings(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("x: &m {rate: 5/m, capacity: 7}\nlimits:\n")
	for i := range 500 {
		fmt.Fprintf(&text, "  limit%d:\n    meters:\n      requests: *m\n      tokens: {<<: *m}\n", i)
	}
	_, err := config.Parse([]byte(text.String()))
	if err == nil || strings.Contains(err.Error(), "too large") || !strings.Contains(err.Error(), "no setting named x") {
		t.Errorf("got %.500v", err)
	}
	repository, err := os.ReadFile("../../../headway.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = config.Parse(repository); err != nil {
		t.Error(err)
	}
}
