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

// tally gathers the lines of all probes of a run: the workers' and the producer's. Safe for concurrent use.
type tally struct {
	mu                               sync.Mutex
	ready                            int
	delivered, placed, started, late []int64
	counts                           map[string]int64
}

// read takes lines until their end. A last line that was cut off by a kill is left out.
func (t *tally) read(from io.Reader) error {
	lines := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // the end, whatever its kind
		}
		var line contest.Line
		if err = json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("bench: a worker wrote %q to stdout, which is the probe's: %w", text, err)
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
	t.placed = append(t.placed, l.Placed...)
	t.started = append(t.started, l.Started...)
	t.late = append(t.late, l.Late...)
	for name, n := range l.Counts {
		if t.counts == nil {
			t.counts = map[string]int64{}
		}
		t.counts[name] += n
	}
}

// seen are the numbers of what was counted so far.
type seen struct {
	ready, delivered, placed, started int

	mongo int64
}

func (t *tally) seen() seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return seen{ready: t.ready, delivered: len(t.delivered), placed: len(t.given()), started: len(t.started), mongo: t.counts[contest.CountMongo]}
}

// given are the moments at which tasks were given their places. With a contestant that knows of none each delivery is one.
func (t *tally) given() []int64 {
	if len(t.placed) == 0 {
		return t.delivered
	}
	return t.placed
}

// sorting are the moments of given, sorted.
func (t *tally) sorting() []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(slices.Values(t.given()))
}

// times are sorted copies.
func (t *tally) times() (delivered, started []int64, late []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delivered, started = slices.Sorted(slices.Values(t.delivered)), slices.Sorted(slices.Values(t.started))
	for _, micros := range slices.Sorted(slices.Values(t.late)) {
		late = append(late, time.Duration(micros)*time.Microsecond)
	}
	return delivered, started, late
}
