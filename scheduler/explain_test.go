package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// story is the history of one task, and its expected explanation. The limit has the name of the story.
type story struct {
	// deliver is the handler; nil leaves the task undelivered.
	deliver func(ctx context.Context, w *explained, t scheduler.Task, c reservations.Charge) error
	options tasks.Options

	state    string
	reason   scheduler.Reason
	sentence string // a pattern for the text behind "Task ID "
	waits    bool
	reserved bool
}

// explained is a small fleet with a task for each story.
type explained struct {
	*scheduler.Scheduler

	limiter *reservations.Limiter
	client  redis.UniversalClient
}

// askInVain lets a task ask an empty bucket, and sends it back.
func askInVain(ctx context.Context, w *explained, t scheduler.Task, c reservations.Charge) error {
	first := reservations.Charge{Limit: c.Limit, Tokens: reservations.Tokens{"requests": 100}}
	if _, err := w.limiter.Start(ctx, first); err != nil {
		return err
	}
	turn, err := w.Engine().Arrive(ctx, waitlist.Task(t), []reservations.Charge{c})
	if err != nil {
		return err
	}
	o, err := w.limiter.Start(ctx, c)
	if err != nil {
		return err
	}
	return w.Engine().Wait(ctx, waitlist.Task(t), turn, engine.Stop{Charge: c, Outcome: o})
}

func refused(ctx context.Context, w *explained, t scheduler.Task, c reservations.Charge) error {
	for range 2 {
		if _, err := w.Engine().Refused(ctx, waitlist.Task(t), time.Hour); err != nil {
			return err
		}
	}
	blocked, err := w.limiter.Block(ctx, c, time.Hour)
	if err != nil {
		return err
	}
	return w.Engine().Wait(ctx, waitlist.Task(t), engine.Turn{},
		engine.Stop{Charge: c, Outcome: blocked[0], Refusal: errors.New("429 slow down"), First: true, After: time.Hour})
}

func stories() map[string]story {
	const start = `number 1 of 1 in its waitlist, expected to start in \S+s`
	return map[string]story{
		"limit": {
			deliver: askInVain, state: "retry", reason: scheduler.ReasonLimit, waits: true, reserved: true,
			sentence: `waits for limit limit: it is ` + start + `; no worker takes from queue default\.`,
		},
		"bounded": {
			deliver: askInVain, state: "retry", reason: scheduler.ReasonLimit, waits: true,
			sentence: `waits for limit bounded: it is ` + start + `;.*`,
		},
		"blocked": {
			deliver: func(ctx context.Context, w *explained, t scheduler.Task, c reservations.Charge) error {
				if _, err := w.limiter.Block(ctx, c, time.Hour); err != nil {
					return err
				}
				return askInVain(ctx, w, t, c)
			}, state: "retry", reason: scheduler.ReasonBlocked, waits: true, reserved: true,
			sentence: `waits for limit blocked, in which nothing starts for \S+s because a provider refused a call: it is ` +
				start + `;.*`,
		},
		"quota": {
			deliver: func(ctx context.Context, w *explained, t scheduler.Task, c reservations.Charge) error {
				r := reservations.Refusal{Reason: reservations.ReasonQuota}
				if _, err := w.limiter.Refuse(ctx, c, r); err != nil {
					return err
				}
				return askInVain(ctx, w, t, c)
			}, state: "retry", reason: scheduler.ReasonBlocked, waits: true, reserved: true,
			sentence: `waits for limit quota, which has stopped for \S+s because the provider says that the account has no ` +
				`quota left; it is asked again in \S+s, and the task is number 1 of 1 in its waitlist;.*`,
		},
		"refused": {
			deliver: refused, state: "retry", reason: scheduler.ReasonProvider, waits: true,
			sentence: `was refused by its provider 2 times in a row, and is number 1 of 1 in its waitlist of limit ` +
				`refused, expected to start in \S+s: 429 slow down;.*`,
		},
		"outage": {
			deliver: func(ctx context.Context, w *explained, t scheduler.Task, c reservations.Charge) error {
				return w.Engine().Wait(ctx, waitlist.Task(t), engine.Turn{}, engine.Stop{Charge: c, Cause: errors.New("no answer")})
			}, state: "retry", reason: scheduler.ReasonStore, waits: true,
			sentence: `waits because the bucket of limit outage could not be asked: it is asked again (in \S+s|now), or ` +
				`when the store answers;.*`,
		},
		"failed": {
			deliver: func(context.Context, *explained, scheduler.Task, reservations.Charge) error {
				return errors.New("boom.\nat line 3")
			},
			state: "retry", reason: scheduler.ReasonRetry,
			sentence: `failed 1 time and is tried again (in \S+s|now): boom\.`,
		},
		"archived": {
			deliver: func(context.Context, *explained, scheduler.Task, reservations.Charge) error {
				return fmt.Errorf("hopeless: %w", asynq.SkipRetry)
			},
			state: "archived", reason: scheduler.ReasonArchived,
			sentence: `is in the archive and does not run again: hopeless: skip retry.*`,
		},
		"completed": {
			deliver: func(context.Context, *explained, scheduler.Task, reservations.Charge) error { return nil },
			options: tasks.Options{Retention: time.Hour},
			state:   "completed", reason: scheduler.ReasonCompleted, sentence: `was done at \S+Z\.`,
		},
		"scheduled": {
			options: tasks.Options{At: time.Now().Add(time.Hour)}, state: "scheduled", reason: scheduler.ReasonScheduled,
			sentence: `is scheduled for \S+Z, in \S+s\.`,
		},
		"reserved": {
			state: "scheduled", reason: scheduler.ReasonLimit, waits: true, reserved: true,
			sentence: `waits for limit reserved: it is ` + start + `;.*`,
		},
		"unserved": {
			options: tasks.Options{Queue: "other"}, state: "pending", reason: scheduler.ReasonUnserved,
			sentence: `is ready, but no worker takes from queue other: start one\.`,
		},
	}
}

// setupExplained delivers each story's task once.
func setupExplained(t *testing.T, client redis.UniversalClient, all map[string]story) *explained {
	t.Helper()
	buckets := memstore.New(nil)
	var limits []reservations.Limit
	for name := range all {
		limit := perSecond(1, 1)
		limit.Name = name
		if name == "bounded" {
			limit.Meters[0].MaxReserved = 99 // for the first charge of begin
		}
		limits = append(limits, limit)
	}
	w := &explained{limiter: limiter(t, buckets, limits...), client: client}
	w.Scheduler = newScheduler(t, client, w.limiter, exact())
	charge := func(name string) reservations.Charge {
		return reservations.Charge{Limit: name, Tokens: reservations.Tokens{"requests": 50}}
	}
	plain := newScheduler(t, client, nil, exact()) // its tasks have no places until they are delivered
	delivered := make(chan struct{}, 100)
	deliveries := 0
	for name, s := range all {
		if name == "reserved" {
			if _, err := w.limiter.Start(t.Context(), charge(name)); err != nil {
				t.Fatal(err)
			}
		}
		sender := plain
		if name == "reserved" {
			sender = w.Scheduler
		}
		if _, err := sender.Enqueue(t.Context(), call{Name: name, Limit: name, Requests: 50},
			tasks.Options{ID: name, MaxRetry: 4}, s.options); err != nil {
			t.Fatal(err)
		}
		if s.deliver != nil {
			deliveries++
		}
	}
	server := serve(t, client, func(ctx context.Context, _ *asynq.Task) error {
		defer func() { delivered <- struct{}{} }()
		id, _ := asynq.GetTaskID(ctx)
		return all[id].deliver(ctx, w, scheduler.Task{Queue: "default", ID: id}, charge(id))
	}, asynq.Config{TaskCheckInterval: 20 * time.Millisecond})
	for range deliveries {
		receive(t, delivered)
	}
	server.Shutdown() // afterwards each task is in its final state
	return w
}

func TestExplain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		all := stories()
		w := setupExplained(t, client, all)
		for name, s := range all {
			found, err := w.Find(t.Context(), name)
			if err != nil || len(found) != 1 {
				t.Errorf("%s: found %v, %v", name, found, err)
				continue
			}
			e, err := w.Explain(t.Context(), found[0])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if e.State != s.state || e.Reason != s.reason || e.Type != "call" || e.MaxRetry != 4 || e.BucketErr != nil {
				t.Errorf("%s: %+v", name, e)
			}
			if text := e.Summary(); !regexp.MustCompile("^Task " + name + " " + s.sentence + "$").MatchString(text) {
				t.Errorf("%s: %q, want %q", name, text, s.sentence)
			}
			if len(e.Charges) != 1 || e.Charges[0].Limit != name || e.Charges[0].Tokens["requests"] != 50 {
				t.Errorf("%s: charges %+v", name, e.Charges)
			}
			checkWait(t, name, s, e)
			if want := map[string]int{"failed": 1, "archived": 1}[name]; e.Failures != want {
				t.Errorf("%s: %d failures, want %d", name, e.Failures, want)
			}
		}
	})
}

// checkWait checks the explanation of a wait.
func checkWait(t *testing.T, name string, s story, e scheduler.Explanation) {
	t.Helper()
	if !s.waits {
		if e.Waits != nil {
			t.Errorf("%s: waits as %+v", name, e.Waits)
		}
		return
	}
	if e.Waits == nil {
		t.Fatalf("%s: waits for nothing", name)
	}
	if e.Waits.Reserved != s.reserved || e.Waits.Bucket != name || e.Waits.Tokens["requests"] != 50 ||
		len(e.Waits.TokensAhead) > 0 {
		t.Errorf("%s: waits as %+v", name, e.Waits)
	}
	if ago := e.Now.Sub(e.Since); ago < -time.Second || ago > 10*time.Minute {
		t.Errorf("%s: waits since %v, now %v", name, e.Since, e.Now)
	}
	if net := e.Net.Sub(e.Until); net < 100*time.Second {
		t.Errorf("%s: asynq delivers the task %v after its time", name, net)
	}
	if (e.Bucket == nil) != (name == "outage") {
		t.Errorf("%s: the bucket is %+v", name, e.Bucket)
	}
	if (e.Cause != "") != (name == "refused" || name == "outage") || (e.Note == "") != (name == "reserved") ||
		e.LastError != "" {
		t.Errorf("%s: note %q, cause %q, last error %q", name, e.Note, e.Cause, e.LastError)
	}
}

// explainServed explains a task of a queue with workers. Their signs of life end while the machine stalls.
func explainServed(t *testing.T, s *scheduler.Scheduler, task scheduler.Task) (e scheduler.Explanation) {
	t.Helper()
	until(t, "a worker is known", func() bool {
		var err error
		if e, err = s.Explain(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		return e.Workers > 0
	})
	return e
}

func TestExplainWhatRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, nil, exact())
		running, end := make(chan struct{}), make(chan struct{})
		server := asynq.NewServerFromRedisClient(client, asynq.Config{
			TaskCheckInterval: 20 * time.Millisecond, Concurrency: 1, LogLevel: asynq.FatalLevel,
		})
		if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			running <- struct{}{}
			<-end
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		t.Cleanup(func() { close(end) })
		for _, id := range []string{"a", "b", "c"} {
			if _, err := s.Enqueue(t.Context(), openai(id), tasks.Options{ID: id}); err != nil {
				t.Fatal(err)
			}
			if id == "a" {
				receive(t, running)
			}
		}
		inspector := asynq.NewInspectorFromRedisClient(client)
		for id, want := range map[string]string{
			"a": `^Task a is running.*\.$`,
			"b": `^Task b is ready: it is the next in queue default\.$`,
			"c": `^Task c is ready: 1 task before it in queue default\.$`,
		} {
			e := explainServed(t, s, scheduler.Task{Queue: "default", ID: id})
			if !regexp.MustCompile(want).MatchString(e.Summary()) || e.Workers != 1 {
				t.Errorf("%q, %+v", e.Summary(), e)
			}
		}
		if err := inspector.PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		e, err := s.Explain(t.Context(), scheduler.Task{Queue: "default", ID: "c"})
		if err != nil || e.Reason != scheduler.ReasonPaused || e.Before != 1 {
			t.Errorf("paused: %q, %+v, %v", e.Summary(), e, err)
		}
		if e, err = s.Explain(t.Context(), scheduler.Task{Queue: "default", ID: "a"}); err != nil || e.Resume != "" ||
			strings.Contains(e.Summary(), "paused") {
			t.Errorf("running while its queue is paused: %q, %+v, %v", e.Summary(), e, err)
		}
	})
}

// A waiting task in a paused queue does not start at its time. Each explanation says that, and how to resume the
// queue.
func TestExplainWhatAPauseKeeps(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		all := stories()
		w := setupExplained(t, client, all)
		inspector := asynq.NewInspectorFromRedisClient(client)
		for _, queue := range []string{"default", "other"} {
			if err := inspector.PauseQueue(queue); err != nil {
				t.Fatal(err)
			}
		}
		const resume = "`headway unpause default`"
		at := `; queue default is paused, so it starts only after the pause, and not before \S+Z: resume it with ` + resume
		whenever := `; queue default is paused, so it does not start: resume it with ` + resume
		for name, want := range map[string]string{
			"limit": `waits for limit limit: it is number 1 of 1 in its waitlist, expected to start in \S+s` + at +
				`; no worker takes from queue default\.`,
			"bounded":   `waits for limit bounded: .*` + at + `; no worker.*`,
			"blocked":   `waits for limit blocked, .*` + at + `; no worker.*`,
			"refused":   `was refused by its provider .*: 429 slow down` + at + `; no worker.*`,
			"outage":    `waits because the bucket .*` + whenever + `; no worker.*`, // at once when the store answers
			"scheduled": `is scheduled for \S+Z, in \S+s` + at + `\.`,
			"failed":    `failed 1 time and is tried again (in \S+s: boom` + at + `|now: boom` + whenever + `)\.`,
			"unserved": "is ready, but queue other is paused: resume it with `headway unpause other`; no worker takes " +
				"from queue other" + `\.`,
			"archived":  `is in the archive and does not run again: hopeless: skip retry[^;]*`,
			"completed": `was done at \S+Z\.`,
		} {
			queue := map[bool]string{true: "other", false: "default"}[name == "unserved"]
			e, err := w.Explain(t.Context(), scheduler.Task{Queue: queue, ID: name})
			if err != nil || !e.Paused || !regexp.MustCompile("^Task "+name+" "+want+"$").MatchString(e.Summary()) {
				t.Errorf("%s: %q, want %q, %v", name, e.Summary(), want, err)
			}
			command := "headway unpause " + queue
			if name == "archived" || name == "completed" {
				command = ""
			}
			if e.Resume != command {
				t.Errorf("%s: resumed by %q, want %q", name, e.Resume, command)
			}
		}
	})
}

// Tasks with one ID in different queues are two tasks. A missing task is an error.
func TestFind(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, nil, exact())
		if _, err := s.Find(t.Context(), "x"); !errors.Is(err, asynq.ErrTaskNotFound) ||
			!strings.Contains(err.Error(), "there is no x, and no queue: this Redis is another one") {
			t.Errorf("no queues: %v", err)
		}
		for _, queue := range []string{"b", "a"} {
			if _, err := s.Enqueue(t.Context(), openai("x"), tasks.Options{ID: "x", Queue: queue}); err != nil {
				t.Fatal(err)
			}
		}
		found, err := s.Find(t.Context(), "x")
		if err != nil || fmt.Sprint(found) != "[a/x b/x]" {
			t.Errorf("found %v, %v", found, err)
		}
		if _, err = s.Find(t.Context(), "y"); !errors.Is(err, asynq.ErrTaskNotFound) ||
			!strings.Contains(err.Error(), `there is no y in the queues "a", "b";`) {
			t.Errorf("an unknown task: %v", err)
		}
		for _, unknown := range []scheduler.Task{{Queue: "a", ID: "y"}, {Queue: "none", ID: "x"}} {
			if _, err = s.Explain(t.Context(), unknown); !errors.Is(err, asynq.ErrTaskNotFound) {
				t.Errorf("%v: %v", unknown, err)
			}
		}
		if _, err = s.Explain(t.Context(), scheduler.Task{Queue: "none", ID: "x"}); err == nil ||
			!strings.Contains(err.Error(), `there is no queue "none"; there are "a", "b"`) {
			t.Errorf("an unknown queue: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = s.Explain(ctx, found[0]); !errors.Is(err, context.Canceled) {
			t.Errorf("too late: %v", err)
		}
	})
}

func TestExplainPositions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, limiter(t, store(), perSecond(1, 1)), exact())
		var args []tasks.Args
		for i := range 5 {
			args = append(args, call{Name: "c", Limit: "openai", Requests: 1, Fixed: tasks.Options{ID: strconv.Itoa(i)}})
		}
		if _, err := s.EnqueueMany(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			e, err := s.Explain(t.Context(), scheduler.Task{Queue: "default", ID: strconv.Itoa(i)})
			if err != nil || e.Waits == nil || e.Waits.Position != i+1 || e.Waits.Of != 5 {
				t.Fatalf("%d: %+v, %v", i, e.Waits, err)
			}
			if e.Waits.TokensAhead["requests"] != float64(i) || !e.Waits.AheadExact {
				t.Errorf("%d: %v tokens ahead", i, e.Waits.TokensAhead)
			}
			if in := e.Until.Sub(e.Now); (in - time.Duration(i)*time.Second).Abs() > 900*time.Millisecond {
				t.Errorf("%d: in %v", i, in)
			}
		}
		lists, more, err := s.Engine().Waitlists(t.Context(), "", 10)
		if err != nil || more || len(lists) != 1 || lists[0].Limit != "openai" || lists[0].Waiting != 5 {
			t.Fatalf("%+v, %v, %v", lists, more, err)
		}
		if end := lists[0].End.Sub(lists[0].Now); (end - 4*time.Second).Abs() > 900*time.Millisecond {
			t.Errorf("the last task is expected to start in %v", end)
		}
		list, err := s.Engine().Waitlist(t.Context(), "openai")
		if err != nil || list.Waiting != 5 || list.Tokens["requests"] != 5 {
			t.Errorf("%+v, %v", list, err)
		}
		list, err = s.Engine().Waitlist(t.Context(), "openai:other")
		if err != nil || list.Waiting != 0 || list.Key != "other" ||
			!list.End.IsZero() {
			t.Errorf("an empty waitlist: %+v, %v", list, err)
		}
	})
}
