package mongostore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
)

// Twenty clients, as many processes have them, create the collection, its index and the same bucket at the same moment.
func TestProcesses(t *testing.T) {
	t.Parallel()
	const processes = 20
	uri, name := testenv.Mongo(t)
	var started atomic.Int64
	var ready, ended sync.WaitGroup
	gate := make(chan struct{})
	for p := range processes {
		ready.Add(1)
		store := mongostore.New(connect(t, uri).Database(name), mongostore.Options{}).WithPatience(time.Minute)
		ended.Go(func() {
			ready.Done()
			<-gate
			if err := store.EnsureIndexes(t.Context()); err != nil {
				t.Errorf("process %d: %v", p, err)
			}
			outcomes, err := tryApply(t, store, daily(7), request(1))
			switch {
			case err != nil:
				t.Errorf("process %d: %v", p, err)
			case outcomes[0].State == bucket.StateStarted:
				started.Add(1)
			}
		})
	}
	ready.Wait()
	close(gate)
	ended.Wait()
	if n := started.Load(); n != 7 {
		t.Errorf("%d of %d processes started, want exactly 7", n, processes)
	}
}
