package reservations_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// recording is one scenario of Convex's rate limiter: a limit, and steps on one bucket with their answers.
type recording struct {
	Name   string `json:"name"`
	Config struct {
		Kind        string   `json:"kind"`
		Rate        float64  `json:"rate"`
		Period      float64  `json:"period_ms"`
		Capacity    *float64 `json:"capacity"`    // null: rate
		MaxReserved *float64 `json:"maxReserved"` // null or 0: unlimited
		Start       *float64 `json:"start_ms"`
	} `json:"config"`
	Steps []recorded `json:"steps"`
}

type recorded struct {
	At         float64  `json:"at_ms"`
	Op         string   `json:"op"`
	Count      float64  `json:"count"`
	Reserve    bool     `json:"reserve"`
	OK         bool     `json:"ok"`
	RetryAfter *float64 `json:"retryAfter_ms"`
	Value      *float64 `json:"value_after"` // the stored row
	Stored     *float64 `json:"ts_after"`
	Calculated *float64 `json:"value_calc"`
	Error      *struct {
		Code string `json:"code"`
	} `json:"error"`
	Throws bool `json:"throws"`
}

// What Convex's rate limiter did, Step does. A consuming call is an Allow, with reserve a Reserve, and its balance is the reserved
// one. What differs on purpose is left out, see the table in oracle/README.md. CONVEX_VECTORS names another file.
func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	path, least := "testdata/convex_hand.jsonl", 516
	if other := os.Getenv("CONVEX_VECTORS"); other != "" {
		path, least = other, 1
	}
	file, err := os.Open(path) //nolint:gosec // the tester names it
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, n, steps := bufio.NewScanner(file), 0, 0
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		n++
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		done, fault := r.replay()
		if steps += done; fault != "" {
			t.Errorf("line %d, %s, step %d: %s", n, r.Name, done, fault)
		}
	}
	if err := lines.Err(); err != nil || steps < least {
		t.Errorf("%d steps were compared, want %d; %v", steps, least, err)
	}
	t.Logf("%d steps of %d scenarios agree", steps, n)
}

// limit is the recorded one, and whether there is one like it here.
func (r recording) limit() (reservations.Limit, bool) {
	m := perSecond("m", r.Config.Rate, 0, inf)
	m.Period = time.Duration(math.Round(r.Config.Period * float64(time.Millisecond)))
	if r.Config.Capacity != nil {
		m.Capacity = max(1e-9, *r.Config.Capacity)
	}
	if most := r.Config.MaxReserved; most != nil && *most != 0 {
		m.MaxReserved = *most
	}
	ok := r.Config.Kind == "token bucket"
	if r.Config.Kind == "fixed window" && r.Config.Start != nil {
		m.Kind, ok = reservations.KindWindow, true
		m.Start = time.Duration(math.Round(*r.Config.Start*1000)) * time.Microsecond
	}
	return limitOf(m), ok && limitOf(m).Validate() == nil
}

// replay returns how many steps were compared, and what is different.
func (r recording) replay() (compared int, fault string) {
	l, ok := r.limit()
	if !ok {
		return 0, ""
	}
	var b reservations.Bucket
	last := math.Inf(-1)
	for _, s := range r.Steps {
		tooLate := s.RetryAfter != nil && *s.RetryAfter > float64(reservations.MaxWait.Milliseconds())
		if s.At < last || s.Count < 0 || s.Throws || tooLate {
			return compared, ""
		}
		last = s.At
		if b, fault = r.step(b, l, s); fault != "" {
			if r.rounded(s) {
				fault = ""
			}
			return compared, fault
		}
		compared++
	}
	return compared, ""
}

func (r recording) step(b reservations.Bucket, l reservations.Limit, s recorded) (reservations.Bucket, string) {
	if s.Op == "reset" {
		return reservations.Bucket{}, r.row(reservations.Bucket{}, l, s)
	}
	c := reservations.Charge{Limit: l.Name, Tokens: reservations.Tokens{"m": s.Count}}
	overCapacity := s.Count > l.Meters[0].Cap()
	if tooLarge := c.Validate(l) != nil || !s.Reserve && overCapacity; tooLarge || s.Error != nil {
		if err := c.Validate(l); s.Error == nil || err != nil && !errors.Is(err, reservations.ErrChargeTooLarge) || !tooLarge {
			return b, fmt.Sprintf("%+v: too large %v", s, tooLarge)
		}
		return b, r.row(b, l, s)
	}
	q := reservations.Request{Op: reservations.OpAllow, Tokens: []float64{s.Count}, Dry: s.Op == "check"}
	if s.Reserve {
		q.Op = reservations.OpReserve
	}
	b, o := reservations.Step(b, l, time.UnixMicro(int64(math.Round(s.At*1000))), q)
	if ok := o.Started() || o.State == reserved; ok != s.OK {
		return b, fmt.Sprintf("%+v: %+v", s, o)
	}
	want := time.Duration(0)
	if s.RetryAfter != nil {
		want = time.Duration(*s.RetryAfter * float64(time.Millisecond))
	}
	if refusedReserve := s.Reserve && !s.OK; !overCapacity && !refusedReserve && (o.Wait()-want).Abs() > time.Millisecond/2 {
		return b, fmt.Sprintf("%+v: wait %v, want %v", s, o.Wait(), want)
	}
	return b, r.row(b, l, s)
}

// row compares the reserved balance with the stored row, which is older where the last calls were refused. No row is a bucket that
// has never been used: full, unless its first window is still to come.
func (r recording) row(b reservations.Bucket, l reservations.Limit, s recorded) string {
	if toCome := r.Config.Start; s.Value == nil && toCome != nil && *toCome > s.At {
		return ""
	}
	m := l.Meters[0]
	got, want := m.Cap(), m.Cap()
	if !b.At.IsZero() {
		got = b.Meters[0].Reserved
	}
	if !b.At.IsZero() && s.Value != nil && s.Stored != nil {
		passed := b.At.Sub(time.UnixMicro(int64(math.Round(*s.Stored * 1000))))
		came := passed.Seconds() * m.RatePerSecond()
		if m.Kind == reservations.KindWindow { // stored is when a window started
			came = math.Floor(float64(passed)/float64(m.Period)) * m.Rate
		}
		want = min(want, *s.Value+came)
	}
	if math.Abs(got-want) > 1e-6 {
		return fmt.Sprintf("%+v: balance %v, want %v", s, got, want)
	}
	return ""
}

// rounded says whether the decision hangs on less than 1e-6 tokens of a limit that binary fractions do not hold exactly.
func (r recording) rounded(s recorded) bool {
	if s.Calculated == nil {
		return false
	}
	margin := *s.Calculated
	if s.Reserve && r.Config.MaxReserved != nil {
		margin += *r.Config.MaxReserved
	}
	if r.Config.Kind == "fixed window" { // counted in windows
		margin -= math.Round(margin/r.Config.Rate) * r.Config.Rate
	}
	perMillisecond := r.Config.Rate / r.Config.Period * (1 << 20)
	return math.Abs(margin) < 1e-6 && perMillisecond != math.Trunc(perMillisecond)
}
