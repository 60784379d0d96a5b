package connect_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/setup/connect"
)

// devWorld is a Redis with a password, and an environment with a folder of its own.
func devWorld(t *testing.T, variable string) (redis *embedded.Redis, env map[string]string, file string) {
	t.Helper()
	redis, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	folder := t.TempDir()
	file = filepath.Join(folder, "headway", "dev.json")
	if variable == "HOME" {
		file = filepath.Join(folder, ".cache", "headway", "dev.json")
	}
	return redis, map[string]string{variable: folder}, file
}

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestCommandsFindDev(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "HOME"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			redis, env, file := devWorld(t, variable)
			want := connect.Dev{RedisURL: redis.URL(), Page: "http://127.0.0.1:1", PID: os.Getpid()}
			remove, err := want.Write(t.Context(), getenv(env))
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file has the mode %v: %v", info.Mode(), err)
			}
			got, lives := connect.FindDev(t.Context(), getenv(env))
			if want.Nonce = got.Nonce; !lives || got.Nonce == "" || got != want {
				t.Errorf("found %v, %v", got, lives)
			}
			client, err := connect.Redis(t.Context(), getenv(env))
			if err != nil {
				t.Fatal(err)
			}
			if err = client.Close(); err != nil {
				t.Error(err)
			}
			env["REDIS_URL"] = "redis://127.0.0.1:1/0?max_retries=-1"
			if _, err = connect.Redis(t.Context(), getenv(env)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1 ") {
				t.Errorf("REDIS_URL does not come first: %v", err)
			}
			remove()
			if _, err = os.Stat(file); !os.IsNotExist(err) {
				t.Errorf("the file is still there: %v", err)
			}
		})
	}
}

// A file that is stale, of others, or leads elsewhere is not used.
func TestOtherDevFilesAreNotUsed(t *testing.T) {
	t.Parallel()
	server, env, file := devWorld(t, "XDG_RUNTIME_DIR")
	other, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	gone := other.URL()
	other.Close()
	good := connect.Dev{RedisURL: server.URL(), Page: "http://127.0.0.1:1", PID: os.Getpid()}
	if _, err = good.Write(t.Context(), getenv(env)); err != nil {
		t.Fatal(err)
	}
	good, lives := connect.FindDev(t.Context(), getenv(env))
	if !lives {
		t.Fatal("the fleet is not found")
	}
	of := func(change func(*connect.Dev)) string {
		d := good
		change(&d)
		text, failed := json.Marshal(d)
		if failed != nil {
			t.Fatal(failed)
		}
		return string(text)
	}
	at := func(url string) string { return of(func(d *connect.Dev) { d.RedisURL = url }) }
	process := func(pid int) string { return of(func(d *connect.Dev) { d.PID = pid }) }
	nonce := func(text string) string { return of(func(d *connect.Dev) { d.Nonce = text }) }
	ended := exec.CommandContext(t.Context(), "true") //gate:ok no compiler
	if err = ended.Run(); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"the fleet has ended":         {at(gone), 0o600},
		"another password":            {at(strings.Replace(server.URL(), ":", ":x", 2)), 0o600},
		"no password":                 {at("redis://127.0.0.1:1/0"), 0o600},
		"another machine":             {at("redis://:password@192.0.2.1:6379/0"), 0o600},
		"a name":                      {at("redis://:password@localhost:6379/0"), 0o600},
		"what accepts any password":   {at(impostor(t)), 0o600},
		"the process has ended":       {process(ended.Process.Pid), 0o600},
		"no process":                  {process(0), 0o600},
		"a group of processes":        {process(-1), 0o600},
		"another nonce":               {nonce("guessed"), 0o600},
		"no nonce":                    {nonce(""), 0o600},
		"readable by others":          {at(server.URL()), 0o644},
		"writable by a group":         {at(server.URL()), 0o620},
		"cut in the middle":           {`{"redis_url":"redis`, 0o600},
		"another kind of text":        {`[]`, 0o600},
		"as good as it was (control)": {at(server.URL()), 0o600},
	} {
		if err = os.WriteFile(file, []byte(one.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err = os.Chmod(file, one.mode); err != nil {
			t.Fatal(err)
		}
		control := strings.Contains(name, "(control)")
		if got, lives := connect.FindDev(t.Context(), getenv(env)); lives != control {
			t.Errorf("%s: found %v, %v", name, got, lives)
		}
		if err = os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(t.TempDir(), "elsewhere")
	if err = os.WriteFile(linked, []byte(at(server.URL())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err = os.Symlink(linked, file); err != nil {
		t.Fatal(err)
	}
	if _, lives := connect.FindDev(t.Context(), getenv(env)); lives {
		t.Error("a link is followed")
	}
}

// impostor is a Redis of another user at the address of a fleet that has ended: it accepts every password.
func impostor(t *testing.T) (url string) {
	t.Helper()
	server := miniredis.RunT(t)
	server.RequireAuth("password")
	return "redis://:password@" + server.Addr() + "/0"
}

// The end of an old fleet leaves the file of the one that replaced it.
func TestDevLeavesTheFileOfOthers(t *testing.T) {
	t.Parallel()
	server, env, file := devWorld(t, "HOME")
	d := connect.Dev{RedisURL: server.URL(), PID: os.Getpid()}
	remove, err := d.Write(t.Context(), getenv(env))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = d.Write(t.Context(), getenv(env)); err != nil {
		t.Fatal(err)
	}
	remove()
	if _, err = os.Stat(file); err != nil {
		t.Error(err)
	}
	if _, err = d.Write(t.Context(), getenv(nil)); err == nil {
		t.Error("without a folder there is no error")
	}
}
