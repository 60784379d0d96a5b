package enqueue

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
)

// processArgs is the variable with the arguments of the command, one per line, with which this binary runs as the
// command.
const processArgs = "HEADWAY_TEST_ENQUEUE"

// process returns the command as a process.
func process(tb testing.TB, redisURL, mongo string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	tb.Helper()
	c := exec.CommandContext(tb.Context(), os.Args[0])
	c.Env = append(os.Environ(), processArgs+"="+strings.Join(args, "\n"), "REDIS_URL="+redisURL, "MONGODB_URI="+mongo,
		"GORACE=atexit_sleep_ms=0")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

// inputFile returns a file of n requests of about 600 bytes.
func inputFile(tb testing.TB, n int) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), fmt.Sprintf("%d.jsonl", n))
	f, err := os.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	text := strings.Repeat("a few words ", 40)
	for i := range n {
		fmt.Fprintf(w,
			`{"custom_id":"request-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini",`+
				`"max_tokens":200,"messages":[{"role":"user","content":"%d: %s"}]}}`+"\n",
			i, i, text)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
	return name
}

func stores(tb testing.TB) (client *redis.Client, redisURL, mongo string) {
	tb.Helper()
	redisURL = testenv.Redis(tb)
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		tb.Fatal(err)
	}
	client = redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return client, redisURL, testenv.MongoURI(tb)
}

// processBytes is the variable with the number of bytes to Redis after which the process kills itself.
const processBytes = "HEADWAY_TEST_ENQUEUE_BYTES"

// mortal is a connection to Redis whose process is killed (kill -9) when it has written that many bytes.
type mortal struct {
	net.Conn

	left *atomic.Int64
}

func (m mortal) Write(b []byte) (int, error) {
	if m.left.Add(-int64(len(b))) < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing is written before the signal arrives
	}
	return m.Conn.Write(b)
}

// runUntil is cli.Main of a process that kills itself after that many bytes to Redis.
func runUntil(most string) int {
	n, err := strconv.ParseInt(most, 10, 64)
	if err != nil {
		return cli.ExitUsage
	}
	left := &atomic.Int64{}
	left.Store(n)
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return mortal{c, left}, err
	}
	return cli.Run(connect.WithDial(context.Background(), dial), rootCommand, os.Args[1:],
		cli.Environment{Getenv: os.Getenv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// The enqueuer is killed repeatedly, each time after more bytes to Redis. In the end each request is in the queue once.
func TestKilledEnqueuerGoesOn(t *testing.T) {
	t.Parallel()
	client, redisURL, mongo := stores(t)
	const n = 2000
	args := []string{"batch", inputFile(t, n), "--limit", "openai", "--config", repositoryConfig}
	inspector := asynq.NewInspectorFromRedisClient(client)
	size := func() int {
		info, err := inspector.GetQueueInfo("default")
		if err != nil {
			return 0 // none was enqueued yet
		}
		return info.Size
	}
	for _, bytes := range []int{100_000, 600_000, 1_000_000} { // the requests have 1.4 MB
		c, out := process(t, redisURL, mongo, args...)
		c.Env = append(c.Env, processBytes+"="+strconv.Itoa(bytes))
		if err := c.Run(); err == nil || c.ProcessState.Exited() {
			t.Fatalf("it was not killed: %v: %s", err, out)
		}
		got := size()
		t.Logf("killed after %d bytes with %d requests in the queue", bytes, got)
		if got >= n || got == 0 && bytes == 1_000_000 {
			t.Fatalf("%d of %d requests were sent before it was killed", got, n)
		}
	}
	c, out := process(t, redisURL, mongo, args...)
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := size(); got != n || !strings.Contains(out.String(), strconv.Itoa(n)+" of "+strconv.Itoa(n)+" requests") {
		t.Errorf("%d tasks: %s", got, out)
	}
}

// BenchmarkEnqueuer sends files of different lengths, each with a process of its own. It fails if memory grows with
// the length.
func BenchmarkEnqueuer(b *testing.B) {
	most := map[int]float64{}
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			_, redisURL, mongo := stores(b)
			file := inputFile(b, n)
			for i := range b.N {
				c, out := process(b, redisURL, mongo, "batch", file, "--limit", "openai", "--config", repositoryConfig,
					"--model", "m"+strconv.Itoa(i))
				if err := c.Run(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
				if !ok {
					b.Fatal("this system does not report the memory of a process")
				}
				most[n] = max(most[n], float64(usage.Maxrss)/1024)
			}
			b.ReportMetric(most[n], "MB")
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(0, "ns/op")
		})
	}
	if grown := most[100_000] - most[1000]; grown > 12 {
		b.Errorf("100 000 requests take %.0f MB more than 1000", grown)
	}
}
