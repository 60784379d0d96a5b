package headwaytest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// wrong is a play that ends its test with a message.
type wrong struct {
	name string
	want string // parts that the output of the test has in this order, with "..." between them
	ends string // how the test ends; empty means that it fails
	play func(t *testing.T, f *headwaytest.Fleet)
	// run is the whole test, in place of play.
	run func(t *testing.T)
	// still and busy are the looks after which the watchdog gives the play up. Zero leaves what it has.
	still, busy int
}

// watchEvery is the real time between two looks of the watchdog, at a play that it has to give up.
const watchEvery = 50 * time.Millisecond

// A wrong play ends its own test, with a message that says what to do. The tests after it run.
func TestWrongPlays(t *testing.T) { //nolint:paralleltest // the output of each play is looked for
	if os.Getenv(inner) != "" {
		for _, w := range wrongPlays() {
			t.Run(w.name, func(t *testing.T) {
				if w.still > 0 {
					defer headwaytest.SetWatch(watchEvery, w.still, w.busy)()
				}
				if w.run != nil {
					w.run(t)
					return
				}
				headwaytest.Run(t, func(f *headwaytest.Fleet) { w.play(t, f) }, headwaytest.Limits(perSecond(10, 10)))
			})
		}
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], //gate:ok this binary itself
		"-test.run", "^TestWrongPlays$", "-test.v", "-test.timeout", "5m")
	again.Env = append(os.Environ(), inner+"=1")
	output, err := again.CombinedOutput()
	failure := (*exec.ExitError)(nil)
	if !errors.As(err, &failure) {
		t.Fatalf("the plays ended with %v:\n%s", err, output)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(output), "=== RUN   TestWrongPlays/")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name], _, _ = strings.Cut(text, "--- FAIL: TestWrongPlays (")
	}
	for _, w := range wrongPlays() {
		name := strings.ReplaceAll(w.name, " ", "_")
		text, ran := sections[name]
		ended := strings.Contains(string(output), fmt.Sprintf("--- %s: TestWrongPlays/%s (", cmp.Or(w.ends, "FAIL"), name))
		if !ran || !ended || !inOrder(text, strings.Split(w.want, "...")) || strings.Contains(text, "FailNow on a parent") {
			t.Errorf("%s: want %q in:\n%s", w.name, w.want, text)
		}
	}
	if t.Failed() {
		t.Logf("%s", output[max(0, len(output)-10000):])
	}
}

// inOrder returns whether a text has parts, one after the other.
func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return true
}

// handling lets a handler of the test run for one task at a time.
func handling(f *headwaytest.Fleet, handle func(ctx context.Context) error) {
	f.Workers(1, func(w *worker.Worker) {
		worker.Handle(w, func(ctx context.Context, _ *worker.Job[call]) error { return handle(ctx) })
	})
	f.Arrive(.5, one)
}

func wrongPlays() []wrong {
	return slices.Concat(wrongEnds(), wrongArguments(), wrongProviders(), wrongWaits()) // the last one computes on
}

// wrongEnds are plays that end otherwise than by returning, or leave something behind.
func wrongEnds() []wrong {
	idle := func(f *headwaytest.Fleet) { handling(f, func(context.Context) error { return nil }) }
	return []wrong{
		{name: "t.Fatal in play", want: "wanted 3, got 4", play: func(t *testing.T, f *headwaytest.Fleet) {
			t.Helper()
			idle(f)
			f.Run(time.Second)
			t.Fatal("wanted 3, got 4")
		}},
		{name: "t.Skip in play", want: "not today", ends: "SKIP", play: func(t *testing.T, _ *headwaytest.Fleet) {
			t.Helper()
			t.Skip("not today")
		}},
		{name: "t.Fatal in At", want: "wanted 5", play: func(t *testing.T, f *headwaytest.Fleet) {
			t.Helper()
			f.At(time.Second, func() { t.Fatal("wanted 5") })
			f.Run(time.Minute)
			panic("play goes on")
		}},
		{
			name: "panic in play", want: "headwaytest: play panicked: mine...wrong_test.go",
			play: func(*testing.T, *headwaytest.Fleet) { panic("mine") },
		},
		{
			name: "panic in At", want: "the function of Fleet.At panicked: mine",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				f.At(time.Second, func() { panic("mine") })
				f.Run(time.Minute)
			},
		},
		{
			name: "handler never returns", want: "stop worker 0: ...handlers must return, and leave no goroutine behind",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				handling(f, func(context.Context) error { select {} })
				f.Run(time.Minute)
			},
		},
		{
			name: "handler sleeps", want: "stop worker 0: ...handlers must return...sleep: ...wrongEnds",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				handling(f, func(context.Context) error { time.Sleep(30 * 24 * time.Hour); return nil }) //gate:ok in a bubble
				f.Run(time.Minute)
			},
		},
		{
			name: "handler leaves a goroutine", want: "leave no goroutine behind...in chan receive: ...wrongEnds",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				handling(f, func(context.Context) error {
					go func() {
						for range time.Tick(time.Second) { //gate:ok called in a bubble
						}
					}()
					return nil
				})
				f.Run(time.Minute)
			},
		},
		{name: "nested", want: "Run is called within a play", play: func(t *testing.T, _ *headwaytest.Fleet) {
			t.Helper()
			headwaytest.Run(t, func(*headwaytest.Fleet) {})
		}},
		{name: "fleet after its end", want: "Fleet.Run: the fleet has ended: call it within play", run: func(t *testing.T) {
			t.Helper()
			var after *headwaytest.Fleet
			headwaytest.Run(t, func(f *headwaytest.Fleet) { after = f })
			after.Run(time.Minute)
		}},
	}
}

// wrongWaits are plays in which virtual time stands still.
func wrongWaits() []wrong {
	return []wrong{
		{
			name: "channel from outside", still: 10, busy: 10_000,
			want: "virtual time stands still at ...in chan receive: ...wrongWaits",
			run: func(t *testing.T) {
				t.Helper()
				outside := make(chan int)
				headwaytest.Run(t, func(f *headwaytest.Fleet) {
					handling(f, func(context.Context) error { <-outside; return nil })
					f.Run(time.Minute)
				}, headwaytest.Limits(perSecond(10, 10)))
			},
		},
		{
			name: "mutex while time passes", still: 10, busy: 10_000,
			want: "virtual time stands still at ...in sync.Mutex.Lock: ...wrongWaits",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				var mu sync.Mutex
				f.Workers(1, func(w *worker.Worker) {
					worker.Handle(w, func(context.Context, *worker.Job[call]) error {
						mu.Lock()
						defer mu.Unlock()
						time.Sleep(time.Second) //gate:ok called in a bubble
						return nil
					})
				})
				f.Backlog(5, one)
				f.Run(time.Minute)
			},
		},
		{
			name: "computes for ever", still: 10_000, busy: 40, want: "virtual time stands still at ",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				for n := 0; ; n++ {
					if f.Elapsed() < 0 {
						return
					}
				}
			},
		},
	}
}

// typo is a task with a limit that no fleet has.
type typo struct{}

func (typo) TaskType() string { return "typo" }
func (typo) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "typo", Tokens: reservations.Tokens{"requests": 1}}}
}

// unreadable is a task without a payload.
type unreadable struct{ C chan int }

func (unreadable) TaskType() string { return "unreadable" }

// wrongArguments are calls that can't be meant.
func wrongArguments() []wrong {
	of := func(name, want string, play func(f *headwaytest.Fleet)) wrong {
		return wrong{
			name: name, want: "headwaytest: " + want + "",
			play: func(_ *testing.T, f *headwaytest.Fleet) { play(f) },
		}
	}
	options := func(name, want string, o ...headwaytest.Option) wrong {
		return wrong{name: name, want: "headwaytest: Run: " + want + "", run: func(t *testing.T) {
			t.Helper()
			headwaytest.Run(t, func(*headwaytest.Fleet) { t.Error("play runs") }, o...)
		}}
	}
	nothing := func(w *worker.Worker) {
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
	}
	return []wrong{
		of("no workers", "Fleet.Workers: n is 0: must be at least 1", func(f *headwaytest.Fleet) { f.Workers(0, nothing) }),
		of("nil setup", "Fleet.Workers: setup is nil: must be a function", func(f *headwaytest.Fleet) { f.Workers(1, nil) }),
		of("two configs", "Fleet.Workers: there are 2 configs", func(f *headwaytest.Fleet) {
			f.Workers(1, nothing, worker.Config{}, worker.Config{})
		}),
		of("unknown worker", "Fleet.Worker: n is 7: must be from 0 to 1", func(f *headwaytest.Fleet) {
			f.Workers(2, nothing)
			f.Worker(7)
		}),
		of("restart of a running worker", "Fleet.Restart: n is 0, and this worker runs: call its Kill or Stop first",
			func(f *headwaytest.Fleet) {
				f.Workers(1, nothing)
				f.Restart(0)
			}),
		of("run back", "Fleet.Run: d is -1m0s: must be zero or more", func(f *headwaytest.Fleet) { f.Run(-time.Minute) }),
		of("drain back", "Fleet.Drain: most is -1m0s", func(f *headwaytest.Fleet) { f.Drain(-time.Minute) }),
		of("at before", "Fleet.At: elapsed is -1m0s", func(f *headwaytest.Fleet) { f.At(-time.Minute, func() {}) }),
		of("at nil", "Fleet.At: do is nil", func(f *headwaytest.Fleet) { f.At(0, nil) }),
		of("endless arrivals", "Fleet.Arrive: perSecond is +Inf: must be above 0 and at most 1e+06",
			func(f *headwaytest.Fleet) { f.Arrive(math.Inf(1), one) }),
		of("no arrivals", "Fleet.Arrive: perSecond is 0: must be above 0", func(f *headwaytest.Fleet) { f.Arrive(0, one) }),
		of("arrivals of nil", "Fleet.Arrive: task is nil", func(f *headwaytest.Fleet) { f.Arrive(1, nil) }),
		of("nil arrives", "Fleet.Arrive: task(0) is nil: must be a task", func(f *headwaytest.Fleet) {
			f.Arrive(1, func(int) tasks.Args { return nil })
			f.Run(time.Hour)
		}),
		of("limit that is unknown", "the task arrivals-1-0000000 of type \"typo\" can't be enqueued: ...typo",
			func(f *headwaytest.Fleet) {
				f.Workers(1, nothing)
				f.Arrive(1, func(int) tasks.Args { return typo{} })
				f.Run(time.Minute)
			}),
		of("payload that is none", "the task arrivals-1-0000000 of type \"unreadable\" can't be enqueued: ...chan",
			func(f *headwaytest.Fleet) {
				f.Workers(1, nothing)
				f.Arrive(1, func(int) tasks.Args { return unreadable{} })
				f.Run(time.Minute)
			}),
		of("negative backlog", "Fleet.Backlog: count is -5: must be at least 0",
			func(f *headwaytest.Fleet) { f.Backlog(-5, one) }),
		of("enqueue nil", "Fleet.Enqueue: args is nil: must be a task", func(f *headwaytest.Fleet) { f.Enqueue(nil) }),
		of("replay out of order", "Fleet.Replay: times[2] is 1s: must be at least times[1], 1m0s",
			func(f *headwaytest.Fleet) {
				f.Replay([]time.Duration{0, time.Minute, time.Second}, one)
			}),
		of("replay before", "Fleet.Replay: times[0] is -1s: must be zero or more", func(f *headwaytest.Fleet) {
			f.Replay([]time.Duration{-time.Second}, one)
		}),
		of("outage before", "Fleet.Redis.Down: d is -1s: must be zero or more",
			func(f *headwaytest.Fleet) { f.Redis.Down(-time.Second) }),
		of("hang before", "Fleet.Store.Hang: d is -1s", func(f *headwaytest.Fleet) { f.Store.Hang(-time.Second) }),
		of("faster", "Fleet.Redis.Slow: more is -1s", func(f *headwaytest.Fleet) { f.Redis.Slow(-time.Second, 1) }),
		of("loses more than all", "Fleet.Redis.Lose: share is 7: must be from 0 to 1",
			func(f *headwaytest.Fleet) { f.Redis.Lose(7, time.Second) }),
		of("loses less than nothing", "Fleet.Redis.Lose: share is -1",
			func(f *headwaytest.Fleet) { f.Redis.Lose(-1, time.Second) }),
		of("cut off before", "Worker.CutOff: d is -1s", func(f *headwaytest.Fleet) {
			f.Workers(1, nothing)
			f.Worker(0).CutOff(-time.Second)
		}),
		of("slow before", "Worker.Slow: d is -1s", func(f *headwaytest.Fleet) {
			f.Workers(1, nothing)
			f.Worker(0).Slow(time.Second, -time.Second)
		}),
		options("nil option", "an option is nil: leave it out", nil),
		options("begin", "Begin is 1999-", headwaytest.Begin(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))),
		options("network", "most of Network is -1s: must be at least least, 1s",
			headwaytest.Network(time.Second, -time.Second)),
		options("negative network", "least of Network is -1s", headwaytest.Network(-time.Second, time.Second)),
		options("no rate", "limit \"api\"", headwaytest.Limits(reservations.Limit{Name: "api"})),
		{name: "nil play", want: "headwaytest: Run: play is nil", run: func(t *testing.T) {
			t.Helper()
			headwaytest.Run(t, nil)
		}},
		{
			name: "a trace nowhere", want: "headwaytest: open the file of HEADWAY_TRACE: open ", run: func(t *testing.T) {
				t.Helper()
				t.Setenv("HEADWAY_TRACE", filepath.Join(t.TempDir(), "nowhere", "trace"))
				headwaytest.Run(t, func(*headwaytest.Fleet) { t.Error("play runs") })
			},
		},
	}
}

// wrongProviders are providers that can't be meant, and calls that they can't count.
func wrongProviders() []wrong {
	of := func(name, want string, p headwaytest.Provider) wrong {
		return wrong{
			name: name, want: "headwaytest: Fleet.Provider: \"api\": " + want,
			play: func(_ *testing.T, f *headwaytest.Fleet) { f.Provider("api", p) },
		}
	}
	meters := func(m ...reservations.Meter) headwaytest.Provider {
		return headwaytest.Provider{Meters: append([]reservations.Meter{}, m...)}
	}
	does := func(name, want string, c headwaytest.Call, p headwaytest.Provider) wrong {
		return wrong{
			name: name, want: "headwaytest: provider \"api\": " + want,
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				caller := f.Provider("api", p).Caller()
				handling(f, func(ctx context.Context) error { return caller.Do(ctx, c) })
				f.Run(time.Minute)
			},
		}
	}
	return []wrong{
		of("no meters", "Meters: ...needs at least one meter", meters()),
		of("meter without a rate", "Meters: ...requests.rate: 0 must be a positive number",
			meters(reservations.Meter{Name: "requests", Period: time.Minute, Capacity: 1})),
		of("meter without a period", "Meters: ...requests.period: 0s must be positive",
			meters(reservations.Meter{Name: "requests", Rate: 1, Capacity: 1})),
		of("refuses more than all", "Refuse is 3: must be from 0 to 1", headwaytest.Provider{Refuse: 3}),
		of("refuses no number", "Refuse is NaN", headwaytest.Provider{Refuse: math.NaN()}),
		of("fails and drops more than all", "Refuse, Fail and Drop are 1.8 together: must be at most 1",
			headwaytest.Provider{Fail: .9, Drop: .9}),
		of("retry before", "RetryAfter is -1s", headwaytest.Provider{Refuse: .5, RetryAfter: -time.Second}),
		{
			name: "unknown provider", want: "Fleet.Provider: \"apis\": Meters is nil, and the fleet has no limit \"apis\"",
			play: func(_ *testing.T, f *headwaytest.Fleet) { f.Provider("apis", headwaytest.Provider{}) },
		},
		{
			name: "provider twice", want: "Fleet.Provider: \"api\": exists already",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				f.Provider("api", headwaytest.Provider{})
				f.Provider("api", headwaytest.Provider{})
			},
		},
		{
			name: "other meters", want: "API.SetMeters: the meters are other: must be requests, in this order",
			play: func(_ *testing.T, f *headwaytest.Fleet) {
				f.Provider("api", headwaytest.Provider{}).SetMeters(reservations.PerSecond("other", 1))
			},
		},
		{
			name: "between", want: "play panicked: headwaytest: Between: least is 2s and most 1s",
			play: func(*testing.T, *headwaytest.Fleet) { headwaytest.Between(2*time.Second, time.Second) },
		},
		does("negative tokens", "the Tokens of a call have -1 of \"requests\": must be zero or more",
			headwaytest.Call{Tokens: reservations.Tokens{"requests": -1}}, headwaytest.Provider{}),
		does("unknown meter", "the Used of a call have 1 of \"request\": the provider has no such meter, only requests",
			headwaytest.Call{Used: reservations.Tokens{"request": 1}}, headwaytest.Provider{}),
		does("negative latency", "Latency drew -1s: must be zero or more", headwaytest.Call{},
			headwaytest.Provider{Latency: func(*rand.Rand) time.Duration { return -time.Second }}),
	}
}
