package storetest

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
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
	ok := o.Started() || o.State == reservations.StateReserved
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
		return answer(r.limiter.Check(ctx, charge))
	case s.Op == "reserve" && s.Reserve:
		outcomes, err := r.limiter.Reserve(ctx, charge)
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
		came := passed.Seconds() * r.limit.Rules().Meters[0].RatePerSecond()
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
