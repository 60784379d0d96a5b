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

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// story is the history of one task, and its expected explanation. The limit has the name of the story.
type story struct {
	// deliver is the handler; nil leaves the task undelivered.
	deliver func(ctx context.Context, w *explained, t waitlist.Task, c reservations.Charge) error
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
func askInVain(ctx context.Context, w *explained, t waitlist.Task, c reservations.Charge) error {
	first := reservations.Charge{Limit: c.Limit, Tokens: reservations.Tokens{"requests": 100}}
	if _, err := inside.Of(w.limiter).Ask(ctx, first); err != nil {
		return err
	}
	turn, err := inside.Of(w).Arrive(ctx, t, []reservations.Charge{c})
	if err != nil {
		return err
	}
	o, err := inside.Of(w.limiter).Ask(ctx, c)
	if err != nil {
		return err
	}
	return inside.Of(w).Wait(ctx, t, turn, dispatcher.Stop{Charge: c, Outcome: o})
}

func refused(ctx context.Context, w *explained, t waitlist.Task, c reservations.Charge) error {
	for range 2 {
		if _, err := inside.Of(w).Refused(ctx, t, time.Hour); err != nil {
			return err
		}
	}
	blocked, err := inside.Of(w.limiter).Block(ctx, c, time.Hour)
	if err != nil {
		return err
	}
	return inside.Of(w).Wait(ctx, t, dispatcher.Turn{},
		dispatcher.Stop{Charge: c, Outcome: blocked[0], Refusal: errors.New("429 slow down"), First: true, After: time.Hour})
}

func stories() map[string]story {
	const start = `number 1 of 1 in its waitlist` // no start is expected without a worker
	return map[string]story{
		"limit": {
			deliver: askInVain, state: "retry", reason: scheduler.ReasonLimit, waits: true, reserved: true,
			sentence: `waits for limit limit: it is ` + start + `; no worker takes from queue default: start one\.`,
		},
		"bounded": {
			deliver: askInVain, state: "retry", reason: scheduler.ReasonLimit, waits: true,
			sentence: `waits for limit bounded: it is ` + start + `;.*`,
		},
		"blocked": {
			deliver: func(ctx context.Context, w *explained, t waitlist.Task, c reservations.Charge) error {
				if _, err := inside.Of(w.limiter).Block(ctx, c, time.Hour); err != nil {
					return err
				}
				return askInVain(ctx, w, t, c)
			}, state: "retry", reason: scheduler.ReasonBlocked, waits: true, reserved: true,
			sentence: `waits: limit blocked is blocked, because a provider refused a call, for \S+s more; it is ` +
				start + `;.*`,
		},
		"quota": {
			deliver: func(ctx context.Context, w *explained, t waitlist.Task, c reservations.Charge) error {
				r := &reservations.RetryAfterError{Reason: reservations.ReasonQuota}
				if _, err := inside.Of(w.limiter).Refuse(ctx, c, r, "", time.Time{}); err != nil {
					return err
				}
				return askInVain(ctx, w, t, c)
			}, state: "retry", reason: scheduler.ReasonBlocked, waits: true, reserved: true,
			sentence: `waits: limit quota has stopped, because the provider says that the account has no quota left, ` +
				`for \S+s now; it is asked again in \S+s, and the task is number 1 of 1 in its waitlist;.*`,
		},
		"refused": {
			deliver: refused, state: "retry", reason: scheduler.ReasonProvider, waits: true,
			sentence: `was refused by its provider 2 times in a row, and is number 1 of 1 in its waitlist of limit ` +
				`refused: 429 slow down;.*`,
		},
		"outage": {
			deliver: func(ctx context.Context, w *explained, t waitlist.Task, c reservations.Charge) error {
				stop := dispatcher.Stop{Charge: c, Cause: errors.New("no answer")}
				return inside.Of(w).Wait(ctx, t, dispatcher.Turn{}, stop)
			}, state: "retry", reason: scheduler.ReasonStore, waits: true,
			sentence: `waits because the bucket of limit outage could not be asked: it is asked again (in \S+s|now), or ` +
				`when the store answers;.*`,
		},
		"failed": {
			deliver: func(context.Context, *explained, waitlist.Task, reservations.Charge) error {
				return errors.New("boom.\nat line 3")
			},
			state: "retry", reason: scheduler.ReasonRetry,
			sentence: `failed 1 time and is tried again (in \S+s|now): boom\.`,
		},
		"killed": { // as asynq puts it back
			deliver: func(context.Context, *explained, waitlist.Task, reservations.Charge) error {
				return asynq.ErrLeaseExpired
			},
			state: "retry", reason: scheduler.ReasonRetry,
			sentence: `lost the worker that ran it, which was killed or could not reach Redis, and is tried again ` +
				`(in \S+s|now)\.`,
		},
		"archived": {
			deliver: func(context.Context, *explained, waitlist.Task, reservations.Charge) error {
				return fmt.Errorf("hopeless: %w", asynq.SkipRetry)
			},
			state: "archived", reason: scheduler.ReasonArchived,
			sentence: `is in the archive and does not run again: hopeless: skip retry.*`,
		},
		"completed": {
			deliver: func(context.Context, *explained, waitlist.Task, reservations.Charge) error { return nil },
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
	buckets := memstore.New()
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
			if _, err := inside.Of(w.limiter).Ask(t.Context(), charge(name)); err != nil {
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
		return all[id].deliver(ctx, w, waitlist.Task{Queue: "default", ID: id}, charge(id))
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
			e, err := w.Explain(t.Context(), "", name)
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
			if want := map[string]int{"failed": 1, "killed": 1, "archived": 1}[name]; e.Failures != want {
				t.Errorf("%s: %d failures, want %d", name, e.Failures, want)
			}
		}
	})
}

// asynq archives a task whose worker is gone if it has no retry left.
func TestExplainTheLastLoss(t *testing.T) {
	t.Parallel()
	e := scheduler.Explanation{
		ID: "last", State: "archived", Reason: scheduler.ReasonArchived, LastError: asynq.ErrLeaseExpired.Error(),
	}
	const want = "Task last lost the worker that ran it, which was killed or could not reach Redis, had no retry left, " +
		"and is in the archive."
	if got := e.Summary(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
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
func explainServed(t *testing.T, s *scheduler.Scheduler, task waitlist.Task) (e scheduler.Explanation) {
	t.Helper()
	until(t, "a worker is known", func() bool {
		var err error
		if e, err = s.Explain(t.Context(), task.Queue, task.ID); err != nil {
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
			e := explainServed(t, s, waitlist.Task{Queue: "default", ID: id})
			if !regexp.MustCompile(want).MatchString(e.Summary()) || e.Workers != 1 {
				t.Errorf("%q, %+v", e.Summary(), e)
			}
		}
		if err := inspector.PauseQueue("default"); err != nil {
			t.Fatal(err)
		}
		e, err := s.Explain(t.Context(), "default", "c")
		if err != nil || e.Reason != scheduler.ReasonPaused || e.Before != 1 {
			t.Errorf("paused: %q, %+v, %v", e.Summary(), e, err)
		}
		if e, err = s.Explain(t.Context(), "default", "a"); err != nil || e.Resume != "" ||
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
		unserved := `; queue default is paused, so it does not start: resume it with ` + resume + `; no worker.*`
		whenever := `; queue default is paused, so it does not start: resume it with ` + resume
		for name, want := range map[string]string{
			"limit":     `waits for limit limit: it is number 1 of 1 in its waitlist` + unserved,
			"bounded":   `waits for limit bounded: .*` + unserved,
			"blocked":   `waits: limit blocked is blocked, .*` + unserved,
			"refused":   `was refused by its provider .*: 429 slow down` + unserved,
			"outage":    `waits because the bucket .*` + whenever + `; no worker.*`, // at once when the store answers
			"scheduled": `is scheduled for \S+Z, in \S+s` + at + `\.`,
			"failed":    `failed 1 time and is tried again (in \S+s: boom` + at + `|now: boom` + whenever + `)\.`,
			"unserved": "is ready, but queue other is paused: resume it with `headway unpause other`; no worker takes " +
				"from queue other: start one" + `\.`,
			"archived":  `is in the archive and does not run again: hopeless: skip retry[^;]*`,
			"completed": `was done at \S+Z\.`,
		} {
			queue := map[bool]string{true: "other", false: "default"}[name == "unserved"]
			e, err := w.Explain(t.Context(), queue, name)
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
func TestExplainWithoutAQueue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		s := newScheduler(t, client, nil, exact())
		if _, err := s.Explain(t.Context(), "", "x"); !errors.Is(err, asynq.ErrTaskNotFound) ||
			!strings.Contains(err.Error(), "there is no x, and no queue: this Redis is another one") {
			t.Errorf("no queues: %v", err)
		}
		for _, queue := range []string{"b", "a"} {
			if _, err := s.Enqueue(t.Context(), openai("x"), tasks.Options{ID: "x", Queue: queue}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.Explain(t.Context(), "", "x")
		if err == nil || !strings.Contains(err.Error(), `2 tasks with the ID x: name one of the queues, as in "a"`) {
			t.Errorf("one of two: %v", err)
		}
		if _, err = s.Explain(t.Context(), "", "y"); !errors.Is(err, asynq.ErrTaskNotFound) ||
			!strings.Contains(err.Error(), `there is no y in queues "a", "b";`) {
			t.Errorf("an unknown task: %v", err)
		}
		for _, unknown := range []waitlist.Task{{Queue: "a", ID: "y"}, {Queue: "none", ID: "x"}} {
			if _, err = s.Explain(t.Context(), unknown.Queue, unknown.ID); !errors.Is(err, asynq.ErrTaskNotFound) {
				t.Errorf("%v: %v", unknown, err)
			}
		}
		if _, err = s.Explain(t.Context(), "none", "x"); err == nil ||
			!strings.Contains(err.Error(), `there is no queue "none"; there are "a", "b"`) {
			t.Errorf("an unknown queue: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = s.Explain(ctx, "a", "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("too late: %v", err)
		}
	})
}

func TestExplainPositions(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, client redis.UniversalClient) {
		t.Helper()
		hourly := reservations.Limit{Name: "openai", Meters: []reservations.Meter{
			{Name: "requests", Rate: 1, Period: time.Hour, Capacity: 1},
		}}
		l := limiter(t, store(), hourly)
		if err := l.Do(t.Context(), []reservations.Charge{requests(1)}, func(context.Context) (reservations.Tokens, error) {
			return nil, nil // empties the bucket
		}); err != nil {
			t.Fatal(err)
		}
		s := newScheduler(t, client, l, exact())
		serve(t, client, func(context.Context, *asynq.Task) error { return nil }, asynq.Config{})
		var args []tasks.Args
		for i := range 5 {
			args = append(args, call{Name: "c", Limit: "openai", Requests: 1, Fixed: tasks.Options{ID: strconv.Itoa(i)}})
		}
		if _, err := s.EnqueueMany(t.Context(), args); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			e := explainServed(t, s, waitlist.Task{Queue: "default", ID: strconv.Itoa(i)})
			if e.Waits == nil || e.Waits.Position != i+1 || e.Waits.Of != 5 {
				t.Fatalf("%d: %+v", i, e.Waits)
			}
			if e.Waits.TokensAhead["requests"] != float64(i) || !e.Waits.AheadExact {
				t.Errorf("%d: %v tokens ahead", i, e.Waits.TokensAhead)
			}
			if in := e.Until.Sub(e.Now); (in - time.Duration(i+1)*time.Hour).Abs() > time.Minute {
				t.Errorf("%d: in %v", i, in)
			}
		}
		lists, more, err := inside.Of(s).Waitlists(t.Context(), "", 10)
		if err != nil || more || len(lists) != 1 || lists[0].Limit != "openai" || lists[0].Waiting != 5 {
			t.Fatalf("%+v, %v, %v", lists, more, err)
		}
		if end := lists[0].End.Sub(lists[0].Now); (end - 5*time.Hour).Abs() > time.Minute {
			t.Errorf("the last task is expected to start in %v", end)
		}
		list, err := inside.Of(s).Waitlist(t.Context(), "openai")
		if err != nil || list.Waiting != 5 || list.Tokens["requests"] != 5 {
			t.Errorf("%+v, %v", list, err)
		}
		list, err = inside.Of(s).Waitlist(t.Context(), "openai:other")
		if err != nil || list.Waiting != 0 || list.Key != "other" ||
			!list.End.IsZero() {
			t.Errorf("an empty waitlist: %+v, %v", list, err)
		}
	})
}
