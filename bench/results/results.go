// Package results keeps what was measured, so that parts can be measured one after the other.
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

// The metrics. Not every work has all.
const (
	Share      = "share"       // part of the limit that was used, measure.Share
	ShareSlow  = "share_slow"  // the same of the second limit
	Worst1s    = "worst_1s"    // fullest second, as a part of what is allowed
	Worst10s   = "worst_10s"   // fullest ten seconds
	Over       = "over"        // tokens above what is allowed in the worst of all windows
	Done       = "done"        // part of the tasks that had started when the run ended
	Finish     = "finish_s"    // from the first enqueueing, for a backlog from the first delivery, to the last start
	EnqueueS   = "enqueue_s"   // how long enqueueing all took
	Gap        = "gap_s"       // longest time without a start
	Deliveries = "deliveries"  // handler entries for each task that started
	RedisTrips = "redis_trips" // reads of the Redis server for each task that started, less what idle workers send
	RedisGross = "redis_gross" // the same with that
	RedisEnq   = "redis_enq"   // of them, to enqueue; only for a backlog
	MongoTrips = "mongo_trips" // MongoDB commands for each task that started
	LagP50     = "lag_p50_ms"  // start behind the ideal start, measure.Lag
	LagP99     = "lag_p99_ms"  //
	LateP50    = "late_p50_ms" // start behind the time that the contestant itself had given
	LateP99    = "late_p99_ms" //
	LostP99    = "lost_p99"    // places lost, measure.PlacesLost
	LostMax    = "lost_max"    //
	CPU        = "cpu_s"       // CPU seconds of all workers, their start included
	TaskCPU    = "task_cpu_ms" // CPU of workers since they were ready, and of Redis, for each task that started
	Peak       = "peak_mb"     // largest memory of one worker
	Commands   = "commands_s"  // Redis commands a second, those inside of scripts included
	Reads      = "reads_s"     // Redis round trips a second
	Rate       = "rate_s"      // starts a second; for sorting, tasks a second that were given their places
	PerSecond  = "per_second_" // reservations a second; bucket and callers follow: one_64, many_1
)

// Result is one run.
type Result struct {
	Work       string    `json:"work"`
	Contestant string    `json:"contestant"`
	Repetition int       `json:"repetition"`
	When       time.Time `json:"when"`
	// Session is that of the File's sessions in which it was measured.
	Session string             `json:"session"`
	Metrics map[string]float64 `json:"metrics"`
	// Series are the starts in each second, by key. Only of the first repetition.
	Series map[string][]int `json:"series,omitempty"`
	// Note says what has to be said: that the run was cut off, or why there is none.
	Note string `json:"note,omitempty"`
}

// File is all that was measured.
type File struct {
	// Sessions are the set-ups, by the name that results give.
	Sessions map[string]Session `json:"sessions"`
	Results  []Result           `json:"results"`
}

// Session is the exact set-up of one call of the program.
type Session struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Quick  bool   `json:"quick,omitempty"`
	// Set holds what else there is to say, by name: CPU, memory, versions.
	Set map[string]string `json:"set"`
}

// Load reads a file, less the sessions of which nothing is left. One that does not exist is empty.
func Load(path string) (*File, error) {
	f := &File{Sessions: map[string]Session{}}
	text, err := os.ReadFile(path) //nolint:gosec // the file that the user names
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

// Save writes it, in whole or not at all, into a folder that need not exist.
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

// Add takes a result in, less what came out as no number: that was not measured. What an earlier session measured of the same work and contestant goes.
func (f *File) Add(r Result) {
	maps.DeleteFunc(r.Metrics, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	f.Results = slices.DeleteFunc(f.Results, func(old Result) bool {
		return old.Work == r.Work && old.Contestant == r.Contestant && old.Session != r.Session
	})
	f.Results = append(f.Results, r)
}

// Measured is what one session measured, and nothing else. The results are the file's own.
func (f *File) Measured(session string) *File {
	measured := &File{Sessions: map[string]Session{session: f.Sessions[session]}}
	for _, r := range f.Results {
		if r.Session == session {
			measured.Results = append(measured.Results, r)
		}
	}
	return measured
}

// Of are the results of a work and contestant.
func (f *File) Of(work, contestant string) []Result {
	var of []Result
	for _, r := range f.Results {
		if r.Work == work && r.Contestant == contestant {
			of = append(of, r)
		}
	}
	return of
}

// Median is the median of a metric over all repetitions, and how many there were that have it.
func (f *File) Median(work, contestant, metric string) (value float64, of int) {
	values := f.Values(work, contestant, metric)
	return measure.Median(values), len(values)
}

// Values are those of a metric, by repetition.
func (f *File) Values(work, contestant, metric string) []float64 {
	var values []float64
	for _, r := range f.Of(work, contestant) {
		if v, ok := r.Metrics[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Ratio is the median of metric over that of the other contestant, taken within each repetition, so that a machine that drifts
// hits both alike. Zero where there is nothing to compare.
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
