package fleets_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// spend is a task that takes only tokens from the API.
type spend struct {
	N      int     `json:"n"`
	Tokens float64 `json:"tokens"`
}

func (spend) TaskType() string { return "spend" }

func (s spend) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"tokens": s.Tokens}}}
}

// spending starts workers for these tasks. Refuse, if it is not nil, returns the error of a call that is refused.
func (f *fleet) spending(refuse func() error) {
	f.Workers(size, func(w *worker.Worker) {
		caller := f.api.Caller()
		worker.Handle(w, func(ctx context.Context, job *worker.Job[spend]) error {
			m, _ := f.begin(w, job.ID, job.Attempt)
			var err error
			if refuse != nil {
				err = refuse()
			}
			if err == nil {
				err = caller.Do(ctx, headwaytest.Call{Tokens: reservations.Tokens{"tokens": job.Args.Tokens}})
			}
			f.finish(m, err)
			return err
		})
	}, worker.Config{Events: []func(worker.Event){f.note}})
}

// The API names no time in its refusals, as many do. An adaptive limit finds its rate all the same, and at most one of
// twenty calls is refused. Before, 93 % were.
func TestRefusalsWithoutATime(t *testing.T) {
	for _, c := range []struct {
		name  string
		most  time.Duration // of a call
		burst float64       // of the API
		use   float64
	}{
		{"short calls", 500 * time.Millisecond, 2, .75},
		{"long calls and a burst", 10 * time.Second, 20, .65},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rate = 2
			adaptive := reservations.PerMinute("requests", 60)
			adaptive.Adaptive = reservations.Adaptive{Max: 3000, Ramp: 20 * time.Second}
			api := headwaytest.Provider{
				Meters:  []reservations.Meter{perSecond(rate, c.burst)},
				Latency: headwaytest.Between(c.most/10, c.most), NoRetryAfter: true,
			}
			in(t, world{limits: []reservations.Limit{limit(adaptive)}, provider: api}, func(f *fleet) {
				f.start(size)
				f.Backlog(2500, numbered)
				f.Run(20 * time.Minute) // the rate is found in the first minutes, which vary
				r := f.Report()
				got, all := r.Providers["api"], rate*f.Elapsed().Seconds()
				if got.Count*20 > got.Calls+got.Count || float64(got.Calls) < c.use*all {
					t.Errorf("%d calls were good and %d refused, want %g and one of twenty", got.Calls, got.Count, c.use*all)
				}
				if r.Left == 0 || r.Lost > 0 || r.Failed > 0 {
					t.Error(r)
				}
			})
		})
	}
}

// The API refuses each call, and names no time. There is less than a call a second, beside the calls that were under
// way when the first refusal came. When the API works again, all tasks run, and none has used a retry.
func TestEverythingIsRefused(t *testing.T) {
	adaptive := reservations.PerMinute("tokens", 60_000)
	adaptive.Adaptive = reservations.Adaptive{Max: 3_000_000, Ramp: 20 * time.Second}
	for name, c := range map[string]struct {
		meter reservations.Meter
		takes time.Duration // a refusal
	}{
		"tokens only":        {reservations.PerMinute("tokens", 60_000), 0}, // nothing else keeps calls apart
		"adaptive":           {adaptive, 0},
		"adaptive, and slow": {adaptive, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			api := usual
			api.Meters = []reservations.Meter{reservations.PerMinute("tokens", 3_000_000)}
			in(t, world{limits: []reservations.Limit{limit(c.meter)}, provider: api}, func(f *fleet) {
				const lasts = 31 * time.Second
				burst := 60 + int((c.takes + time.Second).Seconds()) + 1 // and what fills up meanwhile
				underWay, later := 0, 0
				f.spending(func() error {
					switch at := f.Elapsed(); {
					case at > lasts:
						return nil
					case at < c.takes+time.Second:
						underWay++
					default:
						later++
					}
					<-time.After(c.takes)
					return reservations.RetryAfter(0, errors.New("429 Too Many Requests"))
				})
				f.Backlog(200, func(n int) tasks.Args { return spend{N: n, Tokens: 1000} })
				f.Run(lasts)
				if underWay > burst || later > 30 || later < 3 {
					t.Errorf("%d calls before the first refusal was known, %d in the %v after that", underWay, later, lasts)
				}
				f.end(200)
				if last := f.made()[len(f.made())-1].at; last.Sub(f.made()[0].at) > 5*time.Minute {
					t.Errorf("the last call was %v after the first", last.Sub(f.made()[0].at))
				}
				f.wantAttempts(1)
			})
		})
	}
}

// wantAttempts fails if a task used more attempts.
func (f *fleet) wantAttempts(most int) {
	f.t.Helper()
	for _, m := range f.made() {
		if m.attempt > most {
			f.t.Errorf("task %s used attempt %d", m.task, m.attempt)
		}
	}
}

// The account has no quota left for an hour. One call at growing intervals asks for it, nothing is lost, and no task
// uses a retry, however often it is refused.
func TestQuotaExhausted(t *testing.T) {
	in(t, world{
		limits: []reservations.Limit{limit(reservations.PerMinute("tokens", 60_000))}, provider: usual,
	}, func(f *fleet) {
		const from, lasts = time.Second, time.Hour
		refused, soon := 0, 0
		f.spending(func() error {
			if at := f.Elapsed(); at < from || at > from+lasts {
				return nil
			}
			if refused++; f.Elapsed() < from+5*time.Second {
				soon++
			}
			return &reservations.RetryAfterError{Reason: reservations.ReasonQuota, Err: errors.New("insufficient_quota")}
		})
		f.Backlog(200, func(n int) tasks.Args { return spend{N: n, Tokens: 1000} })
		f.Run(from + lasts/2)
		v, err := f.Worker(0).Limiter.View(f.Context(), "api", "")
		if err != nil || v.Refusing != reservations.ReasonQuota || v.RefusingFor < lasts/3 {
			t.Errorf("%+v, %v", v, err)
		}
		f.Run(lasts / 2)
		if asked := refused - soon; soon > 2 || asked < 5 || asked > 15 {
			t.Errorf("%d calls within 5 s, %d after that", soon, asked)
		}
		f.Run(10 * time.Minute)
		f.end(200)
		f.wantAttempts(1)
	})
}

// One of three workers has a wrong key. Its calls only delay their own tasks, as long as the other workers get good
// answers.
func TestOneWorkerWithAWrongKey(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		refused, wrong := 0, (*worker.Worker)(nil)
		f.Workers(size, func(w *worker.Worker) {
			caller := f.api.Caller()
			if wrong == nil {
				wrong = w
			}
			worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
				m, _ := f.begin(w, job.ID, job.Attempt)
				if w == wrong {
					refused++
					f.finish(m, nil)
					return &reservations.RetryAfterError{Reason: reservations.ReasonKey, Err: errors.New("401 Unauthorized")}
				}
				err := caller.Do(ctx, headwaytest.Call{})
				f.finish(m, err)
				return err
			})
		})
		f.Backlog(600, numbered)
		r := f.end(600)
		// One task in 3^n is refused n times in a row, and waits a minute each time at last.
		if f.wantAttempts(1); r.LastStart > 10*time.Minute || refused == 0 {
			t.Errorf("%d calls were refused: %v", refused, r)
		}
	})
}

// Each call of 15 tasks is refused for three years. They stop the limit for twice max_block in all, whether a tenant
// names its flow or not. A tenant with a limit of its own stops it once, however many flows it names. Beside that, the
// 15 other tasks wait for their turns. Before, they took 34.9 s. At ten minutes, each of 15 refusals
// stopped the limit again.
func TestRoguesStopALimitOnce(t *testing.T) {
	for _, c := range []struct {
		name        string
		good, rogue func(n int) call
		most        time.Duration
		block       time.Duration // 2 s if zero
		why         reservations.Reason
		first       bool // the rogues are enqueued before the others
	}{
		{
			"no flows", func(n int) call { return call{N: n} }, func(n int) call { return call{N: n, Series: "rogue"} },
			10 * time.Second, 0, "", false,
		},
		{
			"flows", func(n int) call { return call{N: n, Flow: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Flow: "rogue"} },
			10 * time.Second, 0, "", false,
		},
		{
			"flows, ten minutes", func(n int) call { return call{N: n, Flow: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Flow: "rogue"} },
			11 * time.Minute, 10 * time.Minute, "", false,
		},
		{
			"no flows, ten minutes", func(n int) call { return call{N: n} },
			func(n int) call { return call{N: n, Series: "rogue"} }, 21 * time.Minute, 10 * time.Minute, "", false,
		},
		{
			"flows, two hours", func(n int) call { return call{N: n, Flow: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Flow: "rogue"} },
			121 * time.Minute, 2 * time.Hour, "", false,
		},
		{
			"a flow for each", func(n int) call { return call{N: n, Flow: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Flow: fmt.Sprint("rogue", n)} },
			10 * time.Second, 0, "", false,
		},
		{
			"a tenant with a flow for each", func(n int) call { return call{N: n, Tenant: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Tenant: "rogue", Flow: fmt.Sprint("rogue", n)} },
			7 * time.Second, 0, "", false,
		},
		{ // the bucket asks again with a task of another tenant
			"a tenant without a quota", func(n int) call { return call{N: n, Tenant: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Tenant: "rogue", Flow: fmt.Sprint("rogue", n)} },
			time.Minute, 0, reservations.ReasonQuota, false,
		},
		{
			"a tenant with a wrong key", func(n int) call { return call{N: n, Tenant: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Tenant: "rogue"} },
			time.Minute, 0, reservations.ReasonKey, false,
		},
		{
			"a tenant without a quota, ten minutes", func(n int) call { return call{N: n, Tenant: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Tenant: "rogue", Flow: fmt.Sprint("rogue", n)} },
			16 * time.Minute, 10 * time.Minute, reservations.ReasonQuota, false,
		},
		{
			"a flow with a wrong key, ten minutes", func(n int) call { return call{N: n, Flow: "good"} },
			func(n int) call { return call{N: n, Series: "rogue", Flow: "rogue"} },
			16 * time.Minute, 10 * time.Minute, reservations.ReasonKey, false,
		},
		{
			"no flows and no quota, ten minutes", func(n int) call { return call{N: n} },
			func(n int) call { return call{N: n, Series: "rogue"} },
			21 * time.Minute, 10 * time.Minute, reservations.ReasonQuota, false,
		},
		{ // where all rogues used up their parts, the bucket asks one task after another
			"no flows, ten minutes, rogues first", func(n int) call { return call{N: n} },
			func(n int) call { return call{N: n, Series: "rogue"} }, 45 * time.Minute, 10 * time.Minute, "", true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := limit(perSecond(10, 10))
			shared.MaxBlock = cmp.Or(c.block, 2*time.Second)
			in(t, world{limits: tenantLimits(shared, share{1000, 1000}), provider: usual}, func(f *fleet) {
				f.Workers(size, func(w *worker.Worker) {
					caller := f.api.Caller()
					worker.Handle(w, func(ctx context.Context, job *worker.Job[call]) error {
						if job.Args.Series != "" {
							refused := errors.New("429 Too Many Requests")
							return &reservations.RetryAfterError{Reason: c.why, After: 99_999_999 * time.Second, Err: refused}
						}
						m, _ := f.begin(w, job.ID, job.Attempt)
						err := caller.Do(ctx, headwaytest.Call{})
						f.finish(m, err)
						return err
					})
				})
				tasks := make([]call, 0, 30)
				for n := range 15 {
					tasks = append(tasks, c.rogue(n), c.good(n))
				}
				if c.first {
					slices.SortStableFunc(tasks, func(a, b call) int { return -strings.Compare(a.Series, b.Series) })
				}
				for _, task := range tasks {
					f.Enqueue(task)
				}
				began := time.Now()
				f.Run(4 * c.block)
				f.await(15)
				made := f.made()
				if took := made[len(made)-1].at.Sub(began); took > c.most {
					t.Errorf("the good tasks took %v", took)
				}
			})
		})
	}
}
