package connect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/text/loopback"
)

// devPatience bounds the question whether the fleet of a file lives.
const devPatience = time.Second

// Dev is the fleet of a running `headway dev`, as its file names it. Commands without REDIS_URL use it.
type Dev struct {
	// RedisURL is its queue, with the password.
	RedisURL string `json:"redis_url"`
	// Page is the address of its page.
	Page string `json:"page"`
	PID  int    `json:"pid"`
	// Nonce proves that the Redis is that of this file: it has the same text under keyDev. Write makes it.
	Nonce string `json:"nonce"`
}

// keyDev is a key of the fleet's Redis with the nonce of its file.
const keyDev = "headway:{fleet}:dev"

// devFile is where `headway dev` writes its addresses: below the user's own folder for this session, or for caches.
// Empty without any.
func devFile(getenv func(string) string) string {
	for _, place := range []struct{ variable, below string }{
		{"XDG_RUNTIME_DIR", "headway"}, {"XDG_CACHE_HOME", "headway"}, {"HOME", filepath.Join(".cache", "headway")},
	} {
		if folder := getenv(place.variable); filepath.IsAbs(folder) {
			return filepath.Join(folder, place.below, "dev.json")
		}
	}
	return ""
}

// Write writes the file, for the user alone, and its nonce into the Redis. Remove removes the file unless another fleet
// has replaced it.
func (d Dev) Write(ctx context.Context, getenv func(string) string) (remove func(), err error) {
	name := devFile(getenv)
	if name == "" {
		return nil, errors.New("neither XDG_RUNTIME_DIR nor HOME is set: other commands would not find this fleet")
	}
	d.Nonce = rand.Text()
	err = d.ask(ctx, func(ctx context.Context, client *redis.Client) error {
		return client.Set(ctx, keyDev, d.Nonce, 0).Err()
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err != nil {
		return nil, err
	}
	// A new file under the name: what is there already may have been opened by another user.
	file, err := os.CreateTemp(filepath.Dir(name), "dev.json.") // for the user alone
	if err != nil {
		return nil, err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return nil, err
	}
	return func() {
		if now, err := readDev(name); err == nil && now.Nonce == d.Nonce {
			_ = os.Remove(name)
		}
	}, nil
}

// FindDev returns the fleet of a `headway dev` that lives. A file that a killed process has left is not found: its
// process is gone, or what answers there now does not know the nonce.
func FindDev(ctx context.Context, getenv func(string) string) (Dev, bool) {
	d, err := readDev(devFile(getenv))
	if err != nil || d.Nonce == "" || !alive(d.PID) {
		return Dev{}, false
	}
	err = d.ask(ctx, func(ctx context.Context, client *redis.Client) error {
		nonce, failed := client.Get(ctx, keyDev).Result()
		if failed == nil && nonce != d.Nonce {
			failed = errOtherDev
		}
		return failed
	})
	return d, err == nil
}

var (
	errNotDev   = errors.New("the Redis of `headway dev` is on loopback and has a password")
	errOtherDev = errors.New("another Redis answers there")
)

// ask connects to the Redis for one question.
func (d Dev) ask(ctx context.Context, question func(context.Context, *redis.Client) error) error {
	options, err := redis.ParseURL(d.RedisURL)
	if err != nil || !loopback.Host(options.Addr) || options.Password == "" {
		return errNotDev
	}
	options.MaxRetries, options.DialerRetries = -1, 1
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	return question(ctx, client)
}

// alive reports whether a process of this machine runs, also of another user.
func alive(pid int) bool {
	if pid <= 0 {
		return false
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = process.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}

// readDev reads a file that belongs to the user alone.
func readDev(name string) (d Dev, err error) {
	info, err := os.Lstat(name)
	if err != nil {
		return d, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return d, fmt.Errorf("%s can be changed or read by others", name)
	}
	text, err := os.ReadFile(name) //nolint:gosec // the user's own folder
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(text, &d)
}
