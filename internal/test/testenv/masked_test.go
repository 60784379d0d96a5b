package testenv_test

import (
	"os/exec"
	"strings"
	"testing"
)

// scripts/services prints and stores no password of an address, valid or not.
func TestServicesMaskPasswords(t *testing.T) {
	t.Parallel()
	const masked = `eval "$(sed -n '/^masked()/,/^}/p' ../../../scripts/services)"; masked "$1"`
	for url, want := range map[string]string{
		"redis://h:6379/0":               "redis://h:6379/0",
		"redis://u:hidden@h:1/0":         "redis://***@h:1/0",
		"redis://:hid?den@h:1":           "redis://***@h:1",
		"rediss://u:hid/den@h":           "rediss://***@h",
		"REDIS://u:hid@den@h":            "REDIS://***@h",
		"u:hidden@h:1":                   "***@h:1",
		"redis://h?pass=hidden&a=1":      "redis://h?pass=***&a=1",
		"redis://h?db=1&Password=hidden": "redis://h?db=1&Password=***",
		"mongodb://u:hidden@a,b/x?tls=true&authMechanismProperties=A:hidden": "mongodb://***@a,b/x?tls=true&" +
			"authMechanismProperties=***",
	} {
		got, err := exec.CommandContext(t.Context(), "bash", "-c", masked, "bash", url).Output() //gate:ok a script of our own
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %s, %v, want %s", url, got, err, want)
		}
	}
}
