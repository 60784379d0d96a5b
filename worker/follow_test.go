package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// list is a source of overrides that a test changes.
type list struct {
	mu        sync.Mutex // guards the fields below
	overrides []reservations.Override
	err       error
	asked     int
}

func (l *list) List(context.Context) ([]reservations.Override, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return l.overrides, l.err
}

func (l *list) set(err error, overrides ...reservations.Override) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.overrides, l.err = overrides, err
}

// looks returns how often the source was read.
func (l *list) looks() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// lines is a log of messages with their attributes.
type lines struct {
	slog.Handler

	mu  *sync.Mutex // guards the fields of all copies
	all *[]string
}

func newLines() lines {
	return lines{Handler: slog.DiscardHandler, mu: &sync.Mutex{}, all: &[]string{}}
}

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	text := []string{r.Level.String(), r.Message}
	r.Attrs(func(a slog.Attr) bool {
		text = append(text, a.String())
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.all = append(*l.all, strings.Join(text, " "))
	return nil
}

// count returns how many lines contain the text.
func (l lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(*l.all), func(line string) bool { return !strings.Contains(line, text) }))
}

func (l lines) await(t *testing.T, text string) {
	t.Helper()
	eventually(t, "a line with "+text, func() bool { return l.count(text) > 0 })
}

func rate(limit, key string, r float64) reservations.Override {
	return reservations.Override{Limit: limit, Key: key, Meter: "tokens", Rate: r, Period: time.Minute, By: "ann"}
}

// rateOf returns the effective rate for a key.
func (b *bundle) rateOf(key string) float64 {
	b.t.Helper()
	l, err := inside.Of(b.limiter).Limits().For("api", key)
	if err != nil {
		b.t.Fatal(err)
	}
	return l.Meters[0].Rate
}

const quick = 5 * time.Millisecond

func (b *bundle) following(source *list) (*worker.Worker, lines) {
	b.t.Helper()
	log := newLines()
	w := b.worker(worker.Config{Overrides: source.List, FollowEvery: quick, Logger: slog.New(log)})
	worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
	return w, log
}

func TestFollowerFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, source := setup(t, slow(5)), &list{}
		source.set(nil, rate("api", "", 100))
		w, log := b.following(source)
		b.start(w)
		if got := b.rateOf("any"); got != 100 {
			t.Errorf("the rate is %v once the worker has started", got)
		}
		log.await(t, `INFO limit changed limit=api meter=tokens old=1/h, at most 5 at once `+
			`new=100/m, at most 5 at once by=ann`)

		source.set(nil, rate("api", "", 100), rate("api", "acme", 7), rate("apo", "", 1))
		log.await(t, "limit changed limit=api key=acme meter=tokens old=100/m, at most 5 at once "+
			"new=7/m, at most 5 at once by=ann")
		log.await(t, `WARN some overrides are not in force error=override apo.tokens: reservations: unknown limit`)
		if acme, others := b.rateOf("acme"), b.rateOf(""); acme != 7 || others != 100 {
			t.Errorf("the rates are %v and %v", acme, others)
		}

		slower := slow(5)
		slower.Meters[0].Rate = 2
		if err := b.limiter.SetLimits([]reservations.Limit{slower}); err != nil {
			t.Fatal(err)
		}
		log.await(t, "INFO limit changed below an override, which counts limit=api meter=tokens old=1/h, at most 5 at once "+
			"new=2/h, at most 5 at once")
		source.set(nil)
		log.await(t, "limit changed limit=api meter=tokens old=100/m, at most 5 at once new=2/h, at most 5 at once")
		if got := b.rateOf("acme"); got != 2 {
			t.Errorf("the rate is %v without overrides", got)
		}
	})
}

// The last known overrides stay in force while none can be read. The beginning and the end of that are logged once.
func TestFollowerKeepsWhatItKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, source := setup(t, slow(5)), &list{}
		source.set(nil, rate("api", "", 100))
		w, log := b.following(source)
		b.start(w)
		source.set(errors.New("away"))
		log.await(t, "WARN overrides can't be read, the last known stay in force error=away")
		before := source.looks()
		eventually(t, "more looks", func() bool { return source.looks() > before+3 })
		if b.rateOf("") != 100 || log.count("can't be read") != 1 {
			t.Errorf("the rate is %v, logged %d times", b.rateOf(""), log.count("can't be read"))
		}
		source.set(nil, rate("api", "", 30))
		log.await(t, "INFO overrides can be read again")
		eventually(t, "the new rate", func() bool { return b.rateOf("") == 30 })
		source.set(errors.New("by hand"), rate("api", "", 20)) // one of them is malformed
		eventually(t, "the rate of the others", func() bool { return b.rateOf("") == 20 })
		log.await(t, "WARN some overrides are not in force error=by hand")
	})
}

// Nothing may start without overrides, because a limit may have been lowered.
func TestWorkerDoesNotStartWithoutItsOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, source := setup(t, slow(5)), &list{}
		source.set(&bucket.UnavailableError{Err: context.DeadlineExceeded})
		w, _ := b.following(source)
		if err := w.Start(t.Context()); !errors.Is(err, reservations.ErrUnavailable) ||
			!strings.Contains(err.Error(), "read overrides") {
			t.Fatalf("error is %v", err)
		}
		source.set(nil)
		b.start(w)
		b.enqueue(call{Cost: 1})
		receive(t, b.starts)
	})
}

// An invalid override is logged once, not at each look.
func TestFollowerLogsAnInvalidOverrideOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, source := setup(t, slow(5)), &list{}
		w, log := b.following(source)
		b.start(w)
		source.set(nil, rate("api", "", math.NaN()))
		log.await(t, "WARN some overrides are not in force error=override api.tokens")
		before := source.looks()
		eventually(t, "more looks", func() bool { return source.looks() > before+3 })
		if n := log.count("some overrides are not in force"); n != 1 {
			t.Errorf("logged %d times", n)
		}
	})
}

// A fleet may have overrides for many tenants. Each change of one of them is found, and nothing else changes.
func TestFollowerOfManyOverrides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, source := setup(t, slow(5)), &list{}
		const n = 20_000 // a comparison of each with all others would take a minute
		many := make([]reservations.Override, n)
		for i := range many {
			many[i] = rate("api", strconv.Itoa(i), 5)
		}
		source.set(nil, many...)
		log := newLines()
		load := worker.Load(b.limiter, source.List, slog.New(log))
		for range 2 {
			if err := load(t.Context()); err != nil {
				t.Fatal(err)
			}
			other := slices.Clone(many)
			other[n-1].Rate, other[n-1].By = 7, "bob"
			source.set(nil, other...)
		}
		if all := log.count("limit changed"); all != n+1 ||
			log.count("key=19999 meter=tokens old=5/m, at most 5 at once new=7/m, at most 5 at once by=bob") != 1 {
			t.Errorf("%d changes were logged", all)
		}
	})
}

// A program that adopts Headway follows overrides from Start to Stop, and can change its limits.
func TestLimitsFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, source := setup(t, slow(5)), &list{}
		source.set(nil, rate("api", "", 100))
		limits, err := worker.Adopt(b.client, b.limiter, worker.Config{
			Overrides: source.List, FollowEvery: quick, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err = limits.Start(t.Context()); err != nil || b.rateOf("") != 100 {
			t.Errorf("%v, rate %v once started", err, b.rateOf(""))
		}
		source.set(nil)
		eventually(t, "the override is gone", func() bool { return b.rateOf("") == 1 })
		faster := slow(5)
		faster.Meters[0].Rate = 60
		if err = b.limiter.SetLimits([]reservations.Limit{faster}); err != nil || b.rateOf("") != 60 {
			t.Errorf("%v, rate %v", err, b.rateOf(""))
		}
		if err = limits.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		source.set(errors.New("down"))
		if limits, err = worker.Adopt(b.client, b.limiter, worker.Config{Overrides: source.List}); err != nil {
			t.Fatal(err)
		}
		if err = limits.Start(t.Context()); err == nil {
			t.Error("started without its overrides")
		}
		if err = limits.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkerSetsLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, slow(5))
		log := newLines()
		w := b.worker(worker.Config{Logger: slog.New(log)})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
		b.start(w)
		bad := slow(5)
		bad.Meters[0].Rate = -1
		if err := b.limiter.SetLimits([]reservations.Limit{bad}); !errors.Is(err, reservations.ErrInvalidLimit) ||
			b.rateOf("") != 1 {
			t.Errorf("%v, rate %v", err, b.rateOf(""))
		}
		faster, other := slow(9), slow(5)
		faster.Meters[0].Rate, other.Name = 60, "other"
		if err := b.limiter.SetLimits([]reservations.Limit{faster, other}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"INFO limit changed limit=api meter=tokens old=1/h, at most 5 at once new=60/h, " +
			"at most 9 at once", "INFO limit added limit=other"} {
			if log.count(want) != 1 {
				t.Errorf("%q is not in %q", want, *log.all)
			}
		}
		if err := b.limiter.SetLimits([]reservations.Limit{faster}); err != nil ||
			log.count("limit removed limit=other") != 1 {
			t.Errorf("%v: %q", err, *log.all)
		}
	})
}
