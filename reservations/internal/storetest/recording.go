package storetest

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// recording is one scenario of Convex's rate limiter: a limit, and steps on one bucket with what came back.
type recording struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Config struct {
		Kind        string   `json:"kind"`
		Rate        float64  `json:"rate"`
		Period      float64  `json:"period_ms"`
		Capacity    *float64 `json:"capacity"`    // null: rate
		MaxReserved *float64 `json:"maxReserved"` // null or 0: unlimited
		Start       *float64 `json:"start_ms"`
	} `json:"config"`
	Steps []recordedStep `json:"steps"`
}

type recordedStep struct {
	At         float64  `json:"at_ms"`
	Op         string   `json:"op"` // reserve, check, reset
	Count      float64  `json:"count"`
	Reserve    bool     `json:"reserve"` // may go into deficit
	OK         bool     `json:"ok"`
	RetryAfter *float64 `json:"retryAfter_ms"`
	Value      *float64 `json:"value_after"` // the stored row
	Stored     *float64 `json:"ts_after"`
	Calculated *float64 `json:"value_calc"` // before deciding
	Error      *struct {
		Code string `json:"code"`
	} `json:"error"`
	Throws bool `json:"throws"`
}

// Why something of a recording is left out, because it is different here on purpose.
const (
	differsKind      = "an unknown kind"
	differsStart     = "a window that starts at random"
	differsConfig    = "a limit that is invalid here: no rate, or a negative max_reserved"
	differsBackwards = "from a step whose clock runs back"
	differsNegative  = "from a refund by a negative count"
	differsThrows    = "from a step that throws"
	differsBeyond    = "from a wait beyond MaxWait"
	differsRounding  = "from a decision that hangs on less than 1e-6 tokens"
)

const (
	tokenBucket = "token bucket"
	fixedWindow = "fixed window"
)

// noCapacity stands for a capacity of zero, which is one period's worth here.
const noCapacity = 1e-9

func readRecordings(t *testing.T, path string) (all []recording) {
	t.Helper()
	file, err := os.Open(path) //nolint:gosec // the tester names it
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s, line %d: %v", path, len(all)+1, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// limit is the recorded one, or why there is none like it here.
func (r recording) limit() (l reservations.Limit, leftOut string) {
	m := reservations.Meter{
		Name: "m", Rate: r.Config.Rate, Period: time.Duration(math.Round(r.Config.Period * float64(time.Millisecond))),
		MaxReserved: r.maxReserved(),
	}
	if r.Config.Capacity != nil {
		m.Capacity = max(noCapacity, *r.Config.Capacity)
	}
	l = reservations.Limit{Name: "recorded", Meters: []reservations.Meter{m}}
	if r.Config.Kind == fixedWindow {
		l.Meters[0].Kind = reservations.KindWindow
	}
	if r.Config.Start != nil {
		l.Meters[0].Start = time.Duration(math.Round(*r.Config.Start*1000)) * time.Microsecond
	}
	switch {
	case r.Config.Kind != tokenBucket && r.Config.Kind != fixedWindow:
		return l, differsKind
	case r.Config.Kind == fixedWindow && r.Config.Start == nil:
		return l, differsStart
	case l.Validate() != nil:
		return l, differsConfig
	}
	return l, ""
}

// maxReserved is zero where it is unlimited.
func (r recording) maxReserved() float64 {
	if r.Config.MaxReserved == nil {
		return 0
	}
	return *r.Config.MaxReserved
}

// leftOut is why the step, which follows one at time last, and all after it can't be compared.
func (s recordedStep) leftOut(last float64) string {
	switch {
	case s.At < last:
		return differsBackwards
	case s.Count < 0:
		return differsNegative
	case s.Throws:
		return differsThrows
	case s.RetryAfter != nil && *s.RetryAfter > float64(bucket.MaxWait.Milliseconds()):
		return differsBeyond
	}
	return ""
}

// byRounding says whether the decision hangs on less than 1e-6 tokens of a limit that binary fractions do not hold
// exactly.
func (r recording) byRounding(s recordedStep) bool {
	const dyadic = 1 << 20
	if s.Calculated == nil {
		return false
	}
	margin := *s.Calculated
	if s.Reserve {
		margin += r.maxReserved()
	}
	if r.Config.Kind == fixedWindow { // counted in windows
		margin -= math.Round(margin/r.Config.Rate) * r.Config.Rate
	}
	perMillisecond := r.Config.Rate / r.Config.Period * dyadic
	return math.Abs(margin) < noMoreThan && perMillisecond != math.Trunc(perMillisecond)
}
