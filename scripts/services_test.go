package scripts_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/test/testenv"
)

// services runs scripts/services with this folder, and with no other variables than env.
func services(t *testing.T, folder string, env []string, args ...string) (out string, err error) {
	t.Helper()
	args = append([]string{"-c", `umask 027; exec bash "$0" "$@"`, "./services"}, args...)
	c := exec.CommandContext(context.WithoutCancel(t.Context()), "bash", args...) //gate:ok a script of our own
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "HEADWAY_SERVICES_DIR=" + folder}, env...)
	text, err := c.CombinedOutput()
	return string(text), err
}

// wantPrivate fails if a file below folder contains the secret, or if other users may read a file.
func wantPrivate(t *testing.T, folder, secret string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s holds the password", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}

func TestServicesScriptHidesPasswords(t *testing.T) {
	t.Parallel()
	const secret = "hun/ter@2"
	redis := "REDIS_URL=redis://user:" + secret + "@" + testenv.StartRedisServer(t).Addr() + "/0"
	mongo := "MONGODB_URI=mongodb+srv://user:" + secret + "@example.invalid/?tlsCertificateKeyFilePassword=" + secret
	folder := t.TempDir()
	for _, step := range []struct {
		command string
		env     []string
		says    string // part of the output
		fails   bool
	}{
		{command: "up", env: []string{redis, mongo}, says: "REDIS_URL as given"},
		{command: "status", says: "redis://***@127.0.0.1:"},
		{command: "status", says: "mongodb+srv://***@example.invalid/?tlsCertificateKeyFilePassword=***"},
		{command: "env", says: "REDIS_URL was given to scripts/services up and is not stored", fails: true},
		{
			command: "up", env: []string{"REDIS_URL=redis://user:" + secret + "@127.0.0.1:1/0"},
			says: "redis://***@127.0.0.1:1/0", fails: true,
		},
	} {
		out, err := services(t, folder, step.env, step.command)
		if (err != nil) != step.fails || !strings.Contains(out, step.says) || strings.Contains(out, secret) {
			t.Errorf("%s: %v, wanted %q and no password: %s", step.command, err, step.says, out)
		}
		wantPrivate(t, folder, secret)
	}
}

// A command gets the unmasked addresses, and the umask of the shell.
func TestServicesScriptPassesAddressesOn(t *testing.T) {
	t.Parallel()
	redis := "redis://user:hunter2@" + testenv.StartRedisServer(t).Addr() + "/0"
	mongo := "mongodb+srv://user:hunter2@example.invalid/"
	out, err := services(t, t.TempDir(), []string{"REDIS_URL=" + redis, "MONGODB_URI=" + mongo}, "run", "sh", "-c",
		"umask; env")
	for _, text := range []string{"REDIS_URL=" + redis, "MONGODB_URI=" + mongo, "0027"} {
		if err != nil || !strings.Contains(out, text+"\n") {
			t.Errorf("%v: %q is missing in %s", err, text, out)
		}
	}
}
