// Package results stores results, so that parts can be measured one after the other.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/headway-go/headway/bench/measure"
)

// The metrics. Some works have only some of them.
const (
	Share      = "share"       // used part of the limit, measure.Share.
	ShareSlow  = "share_slow"  // the same of the second limit.
	Worst1s    = "worst_1s"    // fullest second, as a part of the limit.
	Worst10s   = "worst_10s"   // fullest ten seconds.
	Over       = "over"        // tokens above the limit in the worst of all windows.
	Done       = "done"        // part of the tasks that started before the end of the run.
	Finish     = "finish_s"    // from the first enqueueing (of a backlog: the first delivery) to the last start.
	EnqueueS   = "enqueue_s"   // how long enqueueing all tasks took.
	Gap        = "gap_s"       // longest time without a start.
	Deliveries = "deliveries"  // handler calls per started task.
	RedisTrips = "redis_trips" // reads of the Redis server per started task, less the reads of idle workers.
	RedisGross = "redis_gross" // the same with the reads of idle workers.
	RedisEnq   = "redis_enq"   // the part for enqueueing; only for a backlog.
	MongoTrips = "mongo_trips" // MongoDB commands per started task.
	LagP50     = "lag_p50_ms"  // delay after the ideal start, measure.Lag.
	LagP99     = "lag_p99_ms"  //
	LateP50    = "late_p50_ms" // delay after the contestant's own time for the start.
	LateP99    = "late_p99_ms" //
	LostP99    = "lost_p99"    // places lost, measure.PlacesLost.
	LostMax    = "lost_max"    //
	CPU        = "cpu_s"       // CPU seconds of all workers, including their start.
	TaskCPU    = "task_cpu_ms" // CPU of ready workers and of Redis, per started task; see the report for the others.
	Peak       = "peak_mb"     // largest memory of one worker.
	Commands   = "commands_s"  // Redis commands a second, including commands inside of scripts.
	Reads      = "reads_s"     // Redis round trips a second.
	Rate       = "rate_s"      // starts a second; of a work that only enqueues, tasks enqueued a second.
	PerSecond  = "per_second_" // reservations a second; the name continues with buckets and callers: one_64
)

// Result is the result of one run.
type Result struct {
	Work       string    `json:"work"`
	Contestant string    `json:"contestant"`
	Repetition int       `json:"repetition"`
	When       time.Time `json:"when"`
	// Session is the name of its session in File.Sessions.
	Session string             `json:"session"`
	Metrics map[string]float64 `json:"metrics"`
	// Series are the starts in each second, by key. Only the first repetition has them.
	Series map[string][]int `json:"series,omitempty"`
	// Note is a remark: that the run was cut off, or why there is none.
	Note string `json:"note,omitempty"`
}

// File is all stored results.
type File struct {
	// Sessions are the set-ups, by name.
	Sessions map[string]Session `json:"sessions"`
	Results  []Result           `json:"results"`
}

// Session is the exact set-up of one call of the program.
type Session struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Quick  bool   `json:"quick,omitempty"`
	// Set is the rest of the set-up, by name: CPU, memory, versions.
	Set map[string]string `json:"set"`
}

// Load reads a file, and drops sessions without results. A missing file is empty.
func Load(path string) (*File, error) {
	f := &File{Sessions: map[string]Session{}}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if err = json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("results: %s: %w", path, err)
	}
	maps.DeleteFunc(f.Sessions, func(name string, _ Session) bool {
		return !slices.ContainsFunc(f.Results, func(r Result) bool { return r.Session == name })
	})
	return f, nil
}

// Save writes the file atomically, into a folder that need not exist.
func (f *File) Save(path string) error {
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("results: %w", err)
	}
	if err = os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("results: %w", err)
	}
	return os.Rename(path+".new", path)
}

// Add adds a result, without metrics that are not a number. It removes results of earlier sessions for the same work
// and contestant.
func (f *File) Add(r Result) {
	maps.DeleteFunc(r.Metrics, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	f.Results = slices.DeleteFunc(f.Results, func(old Result) bool {
		return old.Work == r.Work && old.Contestant == r.Contestant && old.Session != r.Session
	})
	f.Results = append(f.Results, r)
}

// Measured returns a file with the results of one session. It shares them with f.
func (f *File) Measured(session string) *File {
	measured := &File{Sessions: map[string]Session{session: f.Sessions[session]}}
	for _, r := range f.Results {
		if r.Session == session {
			measured.Results = append(measured.Results, r)
		}
	}
	return measured
}

// Of returns the results of a work and contestant.
func (f *File) Of(work, contestant string) []Result {
	var of []Result
	for _, r := range f.Results {
		if r.Work == work && r.Contestant == contestant {
			of = append(of, r)
		}
	}
	return of
}

// Median returns the median of a metric over all repetitions, and the number of repetitions with the metric.
func (f *File) Median(work, contestant, metric string) (value float64, of int) {
	values := f.Values(work, contestant, metric)
	return measure.Median(values), len(values)
}

// Values returns the values of a metric, by repetition.
func (f *File) Values(work, contestant, metric string) []float64 {
	var values []float64
	for _, r := range f.Of(work, contestant) {
		if v, ok := r.Metrics[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Ratio returns the median of the ratios of a metric to that of the other contestant. Each ratio is of one
// repetition, so that changes of the machine's speed affect both alike. It is zero if there is no such repetition.
func (f *File) Ratio(work, contestant, other, metric string) (value float64, of int) {
	var ratios []float64
	for _, r := range f.Of(work, contestant) {
		for _, o := range f.Of(work, other) {
			if o.Repetition == r.Repetition && o.Session == r.Session && o.Metrics[metric] > 0 {
				ratios = append(ratios, r.Metrics[metric]/o.Metrics[metric])
			}
		}
	}
	return measure.Median(ratios), len(ratios)
}
