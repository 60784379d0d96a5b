package batches_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
)

// Environment variables of the process that TestKilled starts. The address is that of MongoDB or of Redis.
const (
	killURI      = "HEADWAY_TEST_BATCHES_URI"
	killDatabase = "HEADWAY_TEST_BATCHES_DATABASE"
	killAfter    = "HEADWAY_TEST_BATCHES_LINES" // how many lines it prints before it kills itself
)

// mortal kills its process after some writes, in the middle of what its other goroutines do.
type mortal struct {
	io.Writer

	writes int
}

func (m *mortal) Write(b []byte) (int, error) {
	n, err := m.Writer.Write(b)
	if m.writes--; m.writes == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return n, err
}

const killLines = 2000

// connectTo opens the documents at an address.
func connectTo(ctx context.Context, uri, database string) (in documents.Store, done func(), err error) {
	if strings.HasPrefix(uri, "redis") {
		o, unusable := redis.ParseURL(uri)
		if unusable != nil {
			return nil, nil, unusable
		}
		client := redis.NewClient(o)
		return redisdocs.New(client), func() { _ = client.Close() }, nil
	}
	client, err := mongostore.Connect(ctx, uri, testenv.Patient)
	if err != nil {
		return nil, nil, err
	}
	return mongodocs.New(client.Database(database)), func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }, nil
}

// finishLines finishes all lines with 8 handlers, and prints each line whose stored result is its own.
func finishLines(ctx context.Context, uri, database string, out io.Writer) error {
	in, done, err := connectTo(ctx, uri, database)
	if err != nil {
		return err
	}
	defer done()
	s, id := batches.New(in, batches.Options{}), strconv.Itoa(os.Getpid())
	finish, wait := together(s)
	defer wait()
	var line atomic.Int64
	var group sync.WaitGroup
	failures := make(chan error, 8)
	var mu sync.Mutex // guards out
	for range 8 {
		group.Go(func() {
			for n := int(line.Add(1)); n <= killLines; n = int(line.Add(1)) {
				r := answered("b", n, bodyLength)
				r.Response.RequestID = id
				err := finish(ctx, r)
				var first bool
				if err == nil {
					first, err = own(ctx, s, n, id)
				}
				if err != nil {
					failures <- err
					return
				}
				if first {
					mu.Lock()
					_, _ = fmt.Fprintln(out, n)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

// Processes are killed at random times. A line has its whole result or none, no line has the results of two processes,
// and the counts are exact.
func TestKilled(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	killed(t, uri, name)
}

// As TestKilled, with results in Redis.
func TestKilledInRedis(t *testing.T) {
	t.Parallel()
	killed(t, testenv.Redis(t), "")
}

func killed(t *testing.T, uri, name string) {
	t.Helper()
	firsts := map[string]int{}
	for _, after := range []int{1, 50, 300} {
		c := exec.CommandContext(t.Context(), os.Args[0]) //gate:ok kills itself
		c.Env = append(os.Environ(), killURI+"="+uri, killDatabase+"="+name, killAfter+"="+strconv.Itoa(after))
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		printed := bufio.NewScanner(out)
		n := 0
		for ; printed.Scan(); n++ {
			firsts[printed.Text()]++
		}
		if err := c.Wait(); err == nil || n != after {
			t.Errorf("it was not killed after %d lines but after %d: %v", after, n, err)
		}
	}
	var rest bytes.Buffer
	if err := finishLines(t.Context(), uri, name, &rest); err != nil {
		t.Fatal(err)
	}
	for printed := bufio.NewScanner(&rest); printed.Scan(); {
		firsts[printed.Text()]++
	}
	if len(firsts) < killLines/2 || len(firsts) > killLines {
		t.Errorf("%d firsts of %d lines", len(firsts), killLines) // a killed process may not have printed a few of its lines
	}
	for line, n := range firsts {
		if n != 1 {
			t.Errorf("line %s: %d firsts", line, n)
		}
	}
	in, done, err := connectTo(t.Context(), uri, name)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	s := batches.New(in, batches.Options{})
	line := 0
	for r, err := range s.All(t.Context(), "b") {
		line++
		if err != nil || r.Line != line || r.Failed() || !bytes.Equal(r.Response.Body, completion(line, bodyLength)) {
			t.Fatalf("line %d: %+v %v", line, r, err)
		}
	}
	if c, err := s.Counts(t.Context(), "b"); err != nil || c.Done != killLines || c.Used != 200*killLines ||
		line != killLines {
		t.Errorf("%+v %v", c, err)
	}
}
