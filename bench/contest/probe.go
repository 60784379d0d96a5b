package contest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// flushEvery is how often a probe writes its counts. A killed worker loses the counts since the last write.
const flushEvery = 100 * time.Millisecond

// Probe observes a contestant: it counts deliveries and makes the calls. It writes its counts, a Line at a time. It
// is safe for concurrent use.
type Probe struct {
	url    string
	client *http.Client

	mu   sync.Mutex
	line Line
	out  *json.Encoder

	stop, done chan struct{}
}

// Line is the counts of a probe since its last line, as JSON: the protocol between worker processes and the runner.
type Line struct {
	// Ready is true if the worker takes tasks from now on.
	Ready bool `json:"ready,omitempty"`
	// Delivered are the start times of handlers, in nanoseconds since 1970.
	Delivered []int64 `json:"delivered,omitempty"`
	// Started are the calls that the process itself counted, without a provider.
	Started []int64 `json:"started,omitempty"`
	// Late is how many microseconds after its time each task started. Some contestants don't report it.
	Late []int64 `json:"late,omitempty"`
	// Counts are sums by name, e.g. CountMongo.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// CountMongo is the name under which contestants count the commands that they send to MongoDB: see Probe.CountCommands.
const CountMongo = "mongo"

// NewProbe returns a probe of one process that writes to out until Close. Calls go to the provider of env. Without a
// provider, the probe counts them.
func NewProbe(env Env, out io.Writer) *Probe {
	p := &Probe{
		url:    env.ProviderURL,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}},
		out:    json.NewEncoder(out),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	go p.flushing()
	return p
}

// Ready reports that this worker takes tasks from now on.
func (p *Probe) Ready() {
	p.add(func(l *Line) { l.Ready = true })
	p.flush()
}

// Delivered counts one delivery of a task: a handler was called, whether the task may start or not.
func (p *Probe) Delivered() {
	now := time.Now().UnixNano()
	p.add(func(l *Line) { l.Delivered = append(l.Delivered, now) })
}

// Late reports how long after its time a task started. Contestants may report it.
func (p *Probe) Late(d time.Duration) {
	p.add(func(l *Line) { l.Late = append(l.Late, d.Microseconds()) })
}

// Count adds n to the sum with that name.
func (p *Probe) Count(name string, n int64) {
	p.add(func(l *Line) {
		if l.Counts == nil {
			l.Counts = map[string]int64{}
		}
		l.Counts[name] += n
	})
}

// Call makes the call of the task to the provider, which counts it on arrival. Without a provider, Call only counts
// it. It returns how many tokens the call used. The error is from HTTP or from ctx.
func (p *Probe) Call(ctx context.Context, task Task) (used int, err error) {
	if p.url == "" {
		now := time.Now().UnixNano()
		p.add(func(l *Line) { l.Started = append(l.Started, now) })
		return task.Used, nil
	}
	query := url.Values{"key": {task.Key}, "seq": {strconv.Itoa(task.Seq)}, "used": {strconv.Itoa(task.Used)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/call?"+query.Encode(), http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("contest: call of task %d: %w", task.Seq, err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("contest: call of task %d: %w", task.Seq, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err = io.Copy(io.Discard, resp.Body); err != nil {
		return 0, fmt.Errorf("contest: answer to task %d: %w", task.Seq, err)
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("contest: call of task %d: provider answered %s", task.Seq, resp.Status)
	}
	return task.Used, nil
}

// Close writes the remaining counts.
func (p *Probe) Close() {
	close(p.stop)
	<-p.done
	p.client.CloseIdleConnections()
}

func (p *Probe) add(note func(*Line)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	note(&p.line)
}

func (p *Probe) flushing() {
	defer close(p.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.flush()
		case <-p.stop:
			p.flush()
			return
		}
	}
}

// flush writes the line, if it is not empty. It ignores errors: without a reader the run has ended.
func (p *Probe) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.line
	if !l.Ready && len(l.Delivered)+len(l.Started)+len(l.Late)+len(l.Counts) == 0 {
		return
	}
	p.line = Line{}
	_ = p.out.Encode(l)
}
