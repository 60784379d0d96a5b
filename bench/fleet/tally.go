package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// tally collects the lines of the probes of a run, of the workers or of the producer. It is safe for concurrent use.
type tally struct {
	mu                       sync.Mutex
	ready                    int
	delivered, started, late []int64
	counts                   map[string]int64
}

// read reads all lines. It skips a last line that a kill has cut off.
func (t *tally) read(from io.Reader) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // any error is the end of the lines
		}
		var line contest.Line
		if err = json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("bench: a worker wrote %q to stdout, which is for the probe: %w", text, err)
		}
		t.add(line)
	}
}

func (t *tally) add(l contest.Line) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.Ready {
		t.ready++
	}
	t.delivered = append(t.delivered, l.Delivered...)
	t.started = append(t.started, l.Started...)
	t.late = append(t.late, l.Late...)
	for name, n := range l.Counts {
		if t.counts == nil {
			t.counts = map[string]int64{}
		}
		t.counts[name] += n
	}
}

// seen is the counts so far.
type seen struct {
	ready, started int
	mongo          int64
}

func (t *tally) seen() seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return seen{ready: t.ready, started: len(t.started), mongo: t.counts[contest.CountMongo]}
}

// times returns sorted copies.
func (t *tally) times() (delivered, started []int64, late []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delivered, started = slices.Sorted(slices.Values(t.delivered)), slices.Sorted(slices.Values(t.started))
	for _, micros := range slices.Sorted(slices.Values(t.late)) {
		late = append(late, time.Duration(micros)*time.Microsecond)
	}
	return delivered, started, late
}
