package capacity

import (
	"time"

	"github.com/headway-go/headway/internal/products/simulate"
)

// report is what --json prints. Times are in seconds since the start.
type report struct {
	Seed uint64    `json:"seed"`
	From time.Time `json:"from"`
	result

	Variants []variant `json:"variants"`

	concurrency int
}

// variant is the result of the same calls with other limits.
type variant struct {
	Name string `json:"name"`
	// Problem says why these limits can't serve the calls; then there is no Result.
	Problem string  `json:"problem,omitempty"`
	Result  *result `json:"result,omitempty"`
}

type result struct {
	Calls   int `json:"calls"`
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Refused int `json:"refused"`
	// Arrived is when the last call arrived, Started when the last one started, Ended when the last one ended.
	Arrived float64 `json:"last_arrival"`
	Started float64 `json:"last_start"`
	Ended   float64 `json:"done_after"`
	// Left is how many calls waited when the last one arrived.
	Left    int     `json:"left_at_last_arrival"`
	Waiting peak    `json:"most_waiting"`
	Running peak    `json:"most_running"`
	Wait    waits   `json:"wait"`
	Flows   []flow  `json:"flows"`
	Meters  []meter `json:"meters"`
	// Scarce is the meter that calls waited for longest; null if no call waited for one.
	Scarce *named `json:"scarce"`
}

type peak struct {
	Calls int     `json:"calls"`
	At    float64 `json:"at"`
}

// waits are in seconds.
type waits struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

type flow struct {
	Flow  string `json:"flow"` // empty for calls without one
	Calls int    `json:"calls"`
	waits
}

type named struct {
	Bucket string `json:"bucket"`
	Meter  string `json:"meter"`
}

type meter struct {
	named

	Use     float64 `json:"use"` // from 0 to 1
	Tokens  float64 `json:"tokens"`
	Short   float64 `json:"short_seconds"`
	Blocked float64 `json:"blocked_seconds"`
}

// resultOf is a result as it is printed.
func resultOf(r simulate.Result) result {
	x := result{
		Calls: r.Calls, Done: r.Done, Failed: r.Failed, Refused: r.Refused, Arrived: rounded(r.Arrived),
		Started: rounded(r.Started), Ended: rounded(r.Ended), Left: r.Left,
		Waiting: peak{r.Waiting.Most, rounded(r.Waiting.At)}, Running: peak{r.Running.Most, rounded(r.Running.At)},
		Wait: waitsOf(r.Waits), Flows: []flow{}, Meters: []meter{},
	}
	for _, f := range r.Flows {
		x.Flows = append(x.Flows, flow{Flow: f.Flow, Calls: f.Calls, waits: waitsOf(f.Waits)})
	}
	for _, m := range r.Meters {
		x.Meters = append(x.Meters, meter{
			named: named{m.Bucket(), m.Meter}, Use: m.Use, Tokens: m.Tokens, Short: rounded(m.Short),
			Blocked: rounded(m.Blocked),
		})
	}
	if m, ok := r.Scarce(); ok {
		x.Scarce = &named{m.Bucket(), m.Meter}
	}
	return x
}

func waitsOf(w simulate.Waits) waits {
	return waits{
		Mean: rounded(w.Mean), P50: rounded(w.P50), P90: rounded(w.P90), P99: rounded(w.P99), P999: rounded(w.P999),
		Max: rounded(w.Max),
	}
}

// rounded is a time in seconds, to a microsecond.
func rounded(d time.Duration) float64 { return d.Round(time.Microsecond).Seconds() }
