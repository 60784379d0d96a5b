package connect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/embedded"
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
		redis, env, file := devWorld(t, variable)
		want := connect.Dev{RedisURL: redis.URL(), Page: "http://127.0.0.1:1", PID: os.Getpid()}
		remove, err := want.Write(getenv(env))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: the file has the mode %v: %v", variable, info.Mode(), err)
		}
		if got, lives := connect.FindDev(t.Context(), getenv(env)); !lives || got != want {
			t.Errorf("%s: found %v, %v", variable, got, lives)
		}
		client, err := connect.Redis(t.Context(), getenv(env))
		if err != nil {
			t.Fatal(err)
		}
		if err = client.Close(); err != nil {
			t.Error(err)
		}
		env["REDIS_URL"] = "redis://127.0.0.1:1/0"
		if _, err = connect.Redis(t.Context(), getenv(env)); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1 ") {
			t.Errorf("%s: REDIS_URL does not come first: %v", variable, err)
		}
		remove()
		if _, err = os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s: the file is still there: %v", variable, err)
		}
	}
}

// A file that is stale, of others, or leads elsewhere is not used.
func TestOtherDevFilesAreNotUsed(t *testing.T) {
	t.Parallel()
	redis, env, file := devWorld(t, "XDG_RUNTIME_DIR")
	other, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	gone := other.URL()
	other.Close()
	wrong := strings.Replace(redis.URL(), ":", ":x", 2)
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"the fleet has ended":  {`{"redis_url":"` + gone + `"}`, 0o600},
		"another password":     {`{"redis_url":"` + wrong + `"}`, 0o600},
		"no password":          {`{"redis_url":"redis://127.0.0.1:1/0"}`, 0o600},
		"another machine":      {`{"redis_url":"redis://:password@192.0.2.1:6379/0"}`, 0o600},
		"a name":               {`{"redis_url":"redis://:password@localhost:6379/0"}`, 0o600},
		"readable by others":   {`{"redis_url":"` + redis.URL() + `"}`, 0o644},
		"writable by a group":  {`{"redis_url":"` + redis.URL() + `"}`, 0o620},
		"cut in the middle":    {`{"redis_url":"redis`, 0o600},
		"another kind of text": {`[]`, 0o600},
	} {
		if err = os.WriteFile(file, []byte(one.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err = os.Chmod(file, one.mode); err != nil {
			t.Fatal(err)
		}
		if got, lives := connect.FindDev(t.Context(), getenv(env)); lives {
			t.Errorf("%s: found %v", name, got)
		}
		if err = os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	linked := filepath.Join(t.TempDir(), "elsewhere")
	if err = os.WriteFile(linked, []byte(`{"redis_url":"`+redis.URL()+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err = os.Symlink(linked, file); err != nil {
		t.Fatal(err)
	}
	if _, lives := connect.FindDev(t.Context(), getenv(env)); lives {
		t.Error("a link is followed")
	}
}

// The end of an old fleet leaves the file of the one that replaced it.
func TestDevLeavesTheFileOfOthers(t *testing.T) {
	t.Parallel()
	redis, env, file := devWorld(t, "HOME")
	remove, err := connect.Dev{RedisURL: "redis://:x@127.0.0.1:1/0", PID: 1}.Write(getenv(env))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = (connect.Dev{RedisURL: redis.URL(), PID: 2}).Write(getenv(env)); err != nil {
		t.Fatal(err)
	}
	remove()
	if _, err = os.Stat(file); err != nil {
		t.Error(err)
	}
	if _, err = (connect.Dev{}).Write(getenv(nil)); err == nil {
		t.Error("without a folder there is no error")
	}
}
