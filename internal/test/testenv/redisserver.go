package testenv

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	redisBinary   = "redis-server"
	redisImage    = "redis:8"
	serverStartup = 5 * time.Minute
)

// RedisServer is a Redis process of one test. Its append-only file is flushed every second, as on a server in
// production, so a Kill may lose the last second. Only the test's own goroutine may call its methods.
type RedisServer struct {
	port   int
	dir    string
	output bytes.Buffer // read only after exited
	cmd    *exec.Cmd
	exited chan struct{}
	args   []string // more settings
	// sentinel is the file of settings of a Sentinel, which begins no data. Empty for a Redis.
	sentinel string
	// container is the name of the container if Docker runs the server. A killed docker command would leave it
	// running.
	container string
}

// StartRedisServer runs redis-server from PATH, or else in a Docker container, on a free loopback port with an empty
// folder. It returns when the server answers. The process is killed when the test ends. Settings are flags of
// redis-server, e.g. "--appendonly", "no". Without redis-server and Docker the test fails.
func StartRedisServer(tb testing.TB, settings ...string) *RedisServer {
	tb.Helper()
	s := &RedisServer{port: freePort(tb), dir: tb.TempDir(), args: settings}
	s.start(tb)
	tb.Cleanup(s.Kill)
	return s
}

// Addr is host:port. It stays the same through Kill and Restart.
func (s *RedisServer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address of database 0 in the form of REDIS_URL.
func (s *RedisServer) URL() string { return "redis://" + s.Addr() + "/0" }

// Kill ends the process like kill -9, and returns when it has ended. A second call does nothing.
func (s *RedisServer) Kill() {
	if s.cmd == nil {
		return
	}
	if s.container != "" {
		_ = exec.CommandContext(context.Background(), "docker", "kill", s.container).Run()
	} else {
		_ = s.cmd.Process.Kill()
	}
	<-s.exited
	s.cmd = nil
}

// Restart starts the process again on the same port with its data, and returns when it answers. It kills a running
// server first.
func (s *RedisServer) Restart(tb testing.TB) {
	tb.Helper()
	s.Kill()
	s.start(tb)
}

func (s *RedisServer) start(tb testing.TB) {
	tb.Helper()
	s.output.Reset()
	s.cmd = s.command(tb)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		tb.Fatalf("testenv: start %s: %v", redisBinary, err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		_ = cmd.Wait() // killed on purpose, so its status does not matter
	}(s.cmd, s.exited)
	s.await(tb, func(ctx context.Context, c *redis.Client) bool { return c.Ping(ctx).Err() == nil })
}

// command runs the server in the foreground, so that the command ends with the server.
func (s *RedisServer) command(tb testing.TB) *exec.Cmd {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context()) // Kill ends it, not a context
	args := []string{"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--databases", "16"}
	args = append(args, s.args...)
	if path, err := exec.LookPath(redisBinary); err == nil {
		if s.sentinel != "" {
			return exec.CommandContext(ctx, path, s.sentinel, "--sentinel", "--bind", "127.0.0.1", "--port",
				strconv.Itoa(s.port))
		}
		args = append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir}, args...)
		return exec.CommandContext(ctx, path, args...)
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		tb.Fatalf("testenv: neither %s nor docker is on PATH: install the package redis-server, or use `make test`",
			redisBinary)
	}
	s.container = "headway-test-" + uuid.NewString()
	run := []string{
		"run", "--rm", "--name", s.container, "--user", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
		"--volume", s.dir + ":/data", "--publish", fmt.Sprintf("127.0.0.1:%d:6379", s.port), redisImage, redisBinary, "--dir",
		"/data",
	}
	return exec.CommandContext(ctx, docker, append(run, args...)...)
}

// await polls, because a server in another process sends no event.
func (s *RedisServer) await(tb testing.TB, ready func(context.Context, *redis.Client) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), serverStartup)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx, client) {
		select {
		case <-tick.C:
		case <-s.exited:
			tb.Fatalf("testenv: %s ended at its start:\n%s", redisBinary, s.output.String())
		case <-ctx.Done():
			s.Kill()
			tb.Fatalf("testenv: %s at %s is not ready:\n%s", redisBinary, s.Addr(), s.output.String())
		}
	}
}

// freePort returns a port on which no process listens now.
func freePort(tb testing.TB) int {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("testenv: look for a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port // a TCP listener has no other address
}
