package enqueue

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/pause"
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

// The enqueuer is killed repeatedly. In the end each request is in the queue once.
func TestKilledEnqueuerGoesOn(t *testing.T) {
	t.Parallel()
	client, redisURL, mongo := stores(t)
	const n = 6000
	args := []string{"batch", inputFile(t, n), "--limit", "openai", "--config", repositoryConfig}
	inspector := asynq.NewInspectorFromRedisClient(client)
	size := func() int {
		info, err := inspector.GetQueueInfo("default")
		if err != nil {
			return 0 // none was enqueued yet
		}
		return info.Size
	}
	for kill := range 3 {
		c, out := process(t, redisURL, mongo, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for size() < (kill+1)*n/5 {
			if err := pause.For(t.Context(), time.Millisecond); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if got := size(); got >= n {
			t.Fatalf("all %d requests were sent before it was killed", got)
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
