package peers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// judge is a provider that answers at once and counts the calls.
type judge struct {
	wanted int
	done   chan struct{} // closed when all wanted calls have arrived

	mu       sync.Mutex
	arrivals []time.Time
	calls    map[int]int // by Seq
}

func newJudge(t *testing.T, wanted int) (j *judge, url string) {
	t.Helper()
	j = &judge{wanted: wanted, done: make(chan struct{}), calls: map[int]int{}}
	server := httptest.NewServer(j)
	t.Cleanup(server.Close)
	return j, server.URL
}

func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.Atoi(r.URL.Query().Get("seq"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls[seq]++
	j.arrivals = append(j.arrivals, time.Now())
	if len(j.arrivals) == j.wanted {
		close(j.done)
	}
}

// took returns the time between the first call and the last one.
func (j *judge) took() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.arrivals[len(j.arrivals)-1].Sub(j.arrivals[0])
}

// lines stores the lines of probes, and closes ready when enough workers are ready. It is safe for concurrent use.
type lines struct {
	ready chan struct{}

	mu      sync.Mutex
	text    bytes.Buffer
	workers int
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range bytes.Count(p, []byte(`"ready":true`)) {
		if l.workers--; l.workers == 0 {
			close(l.ready)
		}
	}
	return l.text.Write(p)
}

// sum adds up the lines of all probes.
func (l *lines) sum(t *testing.T) (delivered int, counts map[string]int64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	counts = map[string]int64{}
	for decoder := json.NewDecoder(&l.text); ; {
		var line contest.Line
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return delivered, counts
		}
		if err != nil {
			t.Fatalf("a line of a probe: %v", err)
		}
		delivered += len(line.Delivered)
		for _, at := range line.Delivered {
			if ago := time.Since(time.Unix(0, at)); ago < 0 || ago > time.Hour {
				t.Errorf("a delivery %v ago", ago)
			}
		}
		for name, n := range line.Counts {
			counts[name] += n
		}
	}
}

// startFleet starts the worker processes: in this process, or the command of a contestant that is another program. The
// returned function stops them and waits.
func startFleet(t *testing.T, c contest.Contestant, env contest.Env, out *lines) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range env.Workers {
		all.Go(func() {
			if err := work(ctx, c, env, out); err != nil {
				t.Errorf("worker of %s: %v", c.Name(), err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func work(ctx context.Context, c contest.Contestant, env contest.Env, out *lines) error {
	own, ok := c.(contest.Commander)
	if !ok {
		probe := contest.NewProbe(env, out)
		defer probe.Close()
		return c.Work(ctx, env, probe)
	}
	cmd, err := own.Command(env)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if err = cmd.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
}
