package storetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// Replay replays recordings of Convex's rate limiter on the store of one instance, whose clock the test sets. It
// compares every decision, every time to retry and every balance. The file is path, or what CONVEX_VECTORS names. A
// consuming call is an Allow, with reserve a Reserve, and their balance is the reserved one. Replay fails when it
// compares fewer steps of path than atLeast.
//
// Some differences are on purpose. A max_reserved of zero there is unlimited here, and a capacity of zero is 1e-9
// tokens. The times to retry of a refused reservation, and of one above the capacity, are not compared. A step that has
// no counterpart here is left out, with the steps that follow; the log counts these steps by the reason.
func Replay(t *testing.T, path string, atLeast int, open func(t *testing.T) Instance) {
	t.Helper()
	if other := os.Getenv("CONVEX_VECTORS"); other != "" {
		path, atLeast = other, 1
	}
	i := open(t)
	if i.Advance == nil {
		t.Fatal("storetest: Replay needs Instance.Advance")
	}
	scenarios, compared, leftOut := 0, 0, map[string]int{}
	for n, r := range readRecordings(t, path) {
		steps, why := (&replay{driver: driver{t: t, i: i, key: fmt.Sprintf("%s, line %d", r.Name, n+1)}, recording: r}).run()
		if compared += steps; steps > 0 {
			scenarios++
		}
		if steps < len(r.Steps) {
			leftOut[why] += len(r.Steps) - steps
		}
	}
	t.Logf("%d steps of %d scenarios agree; left out: %v", compared, scenarios, leftOut)
	if compared < atLeast {
		t.Errorf("only %d steps were compared, want %d", compared, atLeast)
	}
}

// replay is one scenario on a bucket of its own.
type replay struct {
	driver

	recording recording
	limiter   *reservations.Limiter
	now       float64
}

// run returns how many steps were compared, and why no more.
func (r *replay) run() (steps int, leftOut string) {
	if r.limit, leftOut = r.recording.limit(); leftOut != "" || len(r.recording.Steps) == 0 {
		return 0, leftOut
	}
	var err error
	config := reservations.Config{CallTimeout: time.Minute}
	if r.limiter, err = reservations.New(r.i.Store, []reservations.Limit{r.limit}, config); err != nil {
		r.t.Fatal(err)
	}
	_, now := r.load()
	r.now = float64(now.UnixMicro()) / 1000
	last := r.recording.Steps[0].At
	for _, s := range r.recording.Steps {
		if leftOut := s.leftOut(last); leftOut != "" {
			return steps, leftOut
		}
		r.i.Advance(time.Duration(math.Round((s.At-r.now)*1000)) * time.Microsecond)
		r.now, last = s.At, s.At
		if fault := r.step(s); fault != "" {
			if r.recording.byRounding(s) {
				return steps, differsRounding
			}
			r.t.Errorf("%s (%s), step %d %+v: %s", r.key, r.recording.Source, steps, s, fault)
			return steps, "a fault"
		}
		steps++
	}
	return steps, ""
}

// step does what s did, and says what is different.
func (r *replay) step(s recordedStep) string {
	if s.Op == "reset" {
		if err := r.limiter.Reset(r.t.Context(), r.limit.Name, r.key); err != nil {
			return err.Error()
		}
		return r.compareRow(s)
	}
	o, err := r.ask(s)
	if tooLarge := s.Error != nil; err != nil || tooLarge {
		if !tooLarge || !errors.Is(err, reservations.ErrChargeTooLarge) {
			return fmt.Sprintf("error %v", err)
		}
		return r.compareRow(s)
	}
	ok := o.Started() || o.State == bucket.StateReserved
	if ok != s.OK {
		return fmt.Sprintf("got %s, wait %v", o.State, o.Wait())
	}
	overCapacity, refusedReserve := s.Count > r.limit.Meters[0].Cap(), s.Reserve && !ok
	if want := retryAfter(s); !overCapacity && !refusedReserve && (o.Wait()-want).Abs() > ms/2 {
		return fmt.Sprintf("wait %v, want %v", o.Wait(), want)
	}
	return r.compareRow(s)
}

// ask asks what s asked. An error is that of the charge.
func (r *replay) ask(s recordedStep) (bucket.Answer, error) {
	charge := reservations.Charge{Limit: r.limit.Name, Key: r.key, Tokens: reservations.Tokens{"m": s.Count}}
	if s.Reserve {
		if err := r.limiter.Validate(charge); err != nil {
			return bucket.Answer{}, err
		}
	}
	ctx := r.t.Context()
	switch {
	case s.Op == "check" && s.Reserve:
		return r.one(bucket.Request{Op: bucket.OpReserve, Tokens: []float64{s.Count}, Dry: true}), nil
	case s.Op == "check":
		return answer(inside.Of(r.limiter).Check(ctx, charge))
	case s.Op == "reserve" && s.Reserve:
		outcomes, err := inside.Of(r.limiter).Reserve(ctx, charge)
		if err != nil {
			return bucket.Answer{}, err
		}
		return answer(outcomes[0], nil)
	case s.Op == "reserve":
		g, err := r.limiter.Allow(ctx, charge)
		if err != nil {
			return bucket.Answer{}, err
		}
		return answer(g.Outcomes()[0], nil)
	}
	return bucket.Answer{}, fmt.Errorf("unknown op %q", s.Op)
}

// answer is that of the bucket.
func answer(o reservations.Outcome, err error) (bucket.Answer, error) {
	return bucket.Answer{State: o.State, RetryAt: o.RetryAt, At: o.At}, err
}

func retryAfter(s recordedStep) time.Duration {
	if s.RetryAfter == nil {
		return 0
	}
	return time.Duration(*s.RetryAfter * float64(time.Millisecond))
}

// compareRow compares the reserved balance with the stored row, which is older where the last calls were refused. No
// row is a bucket that has never been used: full, unless its first window is still to come. A store need not write a
// call that changes nothing, so the balance is that of a dry request.
func (r *replay) compareRow(s recordedStep) string {
	if toCome := r.recording.Config.Start; s.Value == nil && toCome != nil && *toCome > s.At {
		return ""
	}
	b, m := r.one(dry(ask(bucket.OpRefresh))).Bucket, r.limit.Meters[0]
	got, want := b.Meters[0].Reserved, m.Cap()
	if s.Value != nil && s.Stored != nil {
		passed := b.At.Sub(time.UnixMicro(int64(math.Round(*s.Stored * 1000))))
		came := passed.Seconds() * bucket.Rules(r.limit).Meters[0].RatePerSecond()
		if m.Kind == reservations.KindWindow { // stored is when a window started
			came = math.Floor(float64(passed)/float64(m.Period)) * m.Rate
		}
		want = min(want, *s.Value+came)
	}
	if math.Abs(got-want) > noMoreThan*max(1, math.Abs(want)) {
		return fmt.Sprintf("balance %v, want %v", got, want)
	}
	return ""
}

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
