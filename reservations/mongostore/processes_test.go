package mongostore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

const (
	processDatabase = "HEADWAY_TEST_DATABASE" // set: this process starts one task and ends
	processURI      = "HEADWAY_TEST_MONGODB_URI"
	processes       = 20
)

// startOnce is one of the processes: it is ready, waits until its input ends, creates the indexes and starts a task.
func startOnce(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client, err := mongostore.Connect(ctx, os.Getenv(processURI), testenv.Patient)
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	store := mongostore.New(client.Database(os.Getenv(processDatabase)), mongostore.Options{})
	if _, err = fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if _, err = io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err = store.EnsureIndexes(ctx); err != nil {
		return err
	}
	daily := reservations.Limit{Name: "daily", Meters: []reservations.Meter{
		{Name: "m", Rate: 1, Period: 24 * time.Hour, Capacity: 7},
	}}
	outcomes, err := bucket.Apply(ctx, store, bucket.Rules(daily), "", request(1))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, outcomes[0].State)
	return err
}

// Twenty processes create the collection, its index and the same bucket at the same moment.
func TestProcesses(t *testing.T) {
	t.Parallel()
	uri, name := testenv.Mongo(t)
	_ = connect(t, uri)
	started := 0
	var ready, ended sync.WaitGroup
	var mu sync.Mutex // guards started
	gate := make(chan struct{})
	for p := range processes {
		ready.Add(1)
		ended.Go(func() {
			out, err := process(t.Context(), uri, name, ready.Done, gate)
			if err != nil {
				t.Errorf("process %d: %v", p, err)
			}
			mu.Lock()
			defer mu.Unlock()
			started += strings.Count(out, bucket.StateStarted)
		})
	}
	ready.Wait()
	close(gate)
	ended.Wait()
	if started != 7 {
		t.Errorf("%d of %d processes started, want exactly 7", started, processes)
	}
}

// process runs this test binary; it lets it go on when gate is closed, and returns what it printed after that.
func process(ctx context.Context, uri, database string, ready func(), gate <-chan struct{}) (string, error) {
	once := sync.OnceFunc(ready)
	defer once()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), processURI+"="+uri, processDatabase+"="+database)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err = cmd.Start(); err != nil {
		return "", err
	}
	if _, err = io.ReadFull(out, make([]byte, len("ready\n"))); err == nil {
		once()
		<-gate
		err = in.Close()
	}
	printed, _ := io.ReadAll(out)
	if werr := cmd.Wait(); werr != nil {
		return "", fmt.Errorf("%w: %s", werr, stderr.String())
	}
	return string(printed), err
}
