package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a Redis process of one run, so that its counters count only this run.
type redisServer struct {
	cmd    *exec.Cmd
	client *redis.Client
	url    string
	folder string
}

// startRedis runs redis-server from PATH without persistence, on a free loopback port.
func startRedis(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("bench: each run has a Redis server of its own, so install redis-server: %w", err)
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "headway-bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: folder of Redis: %w", err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s := &redisServer{
		url: "redis://" + address + "/0", folder: folder, client: redis.NewClient(&redis.Options{Addr: address}),
	}
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), path, //nolint:gosec // a program from PATH
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", folder, "--save", "", "--appendonly", "no")
	if err = s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("bench: start redis-server: %w", err)
	}
	if err = s.await(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *redisServer) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := s.client.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("bench: redis-server at %s does not answer: %w", s.url, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *redisServer) stop() {
	_ = s.client.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.folder)
}

// redisCounts are counters of the server: reads from clients (a pipeline counts once), and commands, including
// commands inside of scripts.
type redisCounts struct {
	reads, commands int64
	cpu             float64 // seconds
}

func (s *redisServer) counts(ctx context.Context) (redisCounts, error) {
	info, err := s.client.Info(ctx, "stats").Result()
	if err != nil {
		return redisCounts{}, fmt.Errorf("bench: counters of Redis: %w", err)
	}
	var c redisCounts
	for name, value := range map[string]any{"total_reads_processed": &c.reads, "total_commands_processed": &c.commands} {
		err = errors.Join(err, field(info, name, value))
	}
	if info, err2 := s.client.Info(ctx, "cpu").Result(); err2 == nil {
		var user, system float64
		err = errors.Join(err, field(info, "used_cpu_user", &user), field(info, "used_cpu_sys", &system))
		c.cpu = user + system
	}
	return c, err
}

func (c redisCounts) since(before redisCounts) redisCounts {
	return redisCounts{reads: c.reads - before.reads, commands: c.commands - before.commands, cpu: c.cpu - before.cpu}
}

func field(info, name string, into any) error {
	_, rest, found := strings.Cut(info, name+":")
	if !found {
		return fmt.Errorf("bench: Redis does not report %s", name)
	}
	if _, err := fmt.Sscan(rest, into); err != nil {
		return fmt.Errorf("bench: counter %s of Redis: %w", name, err)
	}
	return nil
}

func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("bench: a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return 0, fmt.Errorf("bench: unexpected address %v", listener.Addr())
	}
	return address.Port, nil
}
