package fleet

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/enqueue"
	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// stuckJob charges a limit.
type stuckJob struct{ Limit string }

func (stuckJob) TaskType() string { return "job" }

func (j stuckJob) Charges() []reservations.Charge {
	charge := reservations.Charge{Limit: j.Limit, Tokens: reservations.Tokens{"requests": 1}}
	if j.Limit == "slots" {
		charge.Tokens = nil
	}
	return []reservations.Charge{charge}
}

// partly is a store that does not answer for the bucket "away".
type partly struct{ reservations.Store }

func (s partly) Update(ctx context.Context, limit, key string, change reservations.Change) error {
	if limit == "away" {
		return errors.New("away")
	}
	return s.Store.Update(ctx, limit, key, change)
}

// stuckWorld is a fleet with a task for each cause. The ID of a task is the limit or the queue that keeps it.
type stuckWorld struct {
	*session.Session

	t    *testing.T
	env  map[string]string
	file string
}

const stuckLimits = "limits: {slow: {meters: {requests: 100/s}}, spent: {meters: {requests: 100/s}}, " +
	"lost: {meters: {requests: 100/s}}, away: {meters: {requests: 100/s}}, " +
	"called: {meters: {requests: 100/s}}, slots: {in_flight: 1}}"

func newStuckWorld(t *testing.T) *stuckWorld {
	t.Helper()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	w := &stuckWorld{t: t, env: map[string]string{"REDIS_URL": server.URL()}}
	w.file = filepath.Join(t.TempDir(), "headway.yaml")
	w.check(os.WriteFile(w.file, []byte(stuckLimits), 0o600))
	w.Session, err = session.Load(t.Context(), cli.Environment{
		Err: t.Output(), Getenv: func(k string) string { return w.env[k] },
	}, w.file, session.Needs{})
	w.check(err)
	t.Cleanup(func() { w.Close(context.WithoutCancel(t.Context())) })
	// the Redis has just lost its data: calls of before may run for 25 seconds
	lost := strconv.FormatInt(time.Now().UnixMicro(), 10)
	w.check(w.Queue.SetRange(t.Context(), "headway:{buckets}:epoch", 0, lost).Err())
	return w
}

func (w *stuckWorld) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// enqueue sends a task for each cause.
func (w *stuckWorld) enqueue() {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := inside.Of(w.Limiter).Block(ctx, stuckJob{"slow"}.Charges()[0], time.Hour)
	w.check(err)
	refusal := &reservations.RetryAfterError{Reason: reservations.ReasonQuota}
	_, err = inside.Of(w.Limiter).Refuse(ctx, stuckJob{"spent"}.Charges()[0], refusal, "", time.Time{})
	w.check(err)
	for _, limit := range []string{"slow", "spent", "lost", "away", "slots"} {
		_, err = w.Scheduler.Enqueue(ctx, stuckJob{limit}, tasks.Options{ID: limit})
		w.check(err)
	}
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	call, err := llm.NewCall(llm.EndpointChat, "called", []byte(body), "requests")
	w.check(err)
	_, err = w.Scheduler.Enqueue(ctx, call, tasks.Options{ID: "called"})
	w.check(err)
	client := asynq.NewClientFromRedisClient(w.Queue)
	for queue, kind := range map[string]string{"nightly": "job", "dafault": "job", "default": "mail"} {
		_, err = client.Enqueue(asynq.NewTask(kind, nil), asynq.Queue(queue), asynq.TaskID(queue))
		w.check(err)
	}
	w.check(asynq.NewInspectorFromRedisClient(w.Queue).PauseQueue("nightly"))
}

// work runs a worker that lacks a limit, a handler and a provider, until it has returned their tasks.
func (w *stuckWorld) work() (stop func()) {
	w.t.Helper()
	var limits []reservations.Limit
	for _, l := range w.Config.Limits {
		if l.Name != "lost" {
			limits = append(limits, l)
		}
	}
	limiter, err := reservations.New(partly{w.Buckets}, limits, reservations.Config{})
	w.check(err)
	runs, err := worker.New(w.Queue, limiter, worker.Config{
		Logger: slog.New(slog.DiscardHandler), Queues: map[string]int{"default": 1},
	})
	w.check(err)
	worker.Handle(runs, func(context.Context, *worker.Job[stuckJob]) error { return nil })
	lacks := func(string) (*llm.Client, string) { return nil, "OPENAI_API_KEY" }
	chat.HandleCalls(runs, lacks, nil, nil, nil, nil)
	w.check(runs.Start(w.t.Context()))
	fleet := register.New(w.Queue)
	_, err = fleet.Requested(w.t.Context(), register.ProcessName(), "called")
	w.check(err)
	until(w.t, "three are lacked", func() bool {
		found, err := fleet.Lacked(w.t.Context(), time.Now())
		w.check(err)
		list, err := inside.Of(w.Scheduler).Waitlist(w.t.Context(), "away")
		w.check(err)
		return len(found) == 3 && !list.FailedUntil.IsZero()
	})
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), time.Minute)
		defer cancel()
		w.check(runs.Stop(ctx))
	}
}

// readers are what shows causes of all tasks: explain is about one.
func (w *stuckWorld) readers() map[string]string {
	w.t.Helper()
	all := map[string]string{"page": strings.ReplaceAll(pageOf(w.t, w.env, w.file), "&#34;", `"`)}
	_, all["limits show"], _ = command(w.t, w.env, "limits", "show", "--config", w.file)
	var out bytes.Buffer
	cli.Run(w.t.Context(), func(env cli.Environment) *cobra.Command {
		root := &cobra.Command{Use: "headway"}
		root.AddCommand(enqueue.Commands(env)...)
		return root
	}, []string{"status", "--config", w.file}, cli.Environment{
		Getenv: func(k string) string { return w.env[k] }, Out: &out, Err: w.t.Output(),
	})
	all["status"] = out.String()
	all["metrics"] = strings.Join(w.series(), "\n")
	return all
}

// series are the labels and the values of headway_stuck_tasks.
func (w *stuckWorld) series() (all []string) {
	w.t.Helper()
	m := metrics.New(metrics.Config{})
	defer m.Close()
	w.check(m.Watch(w.Queue, w.Limiter))
	registry := prometheus.NewPedanticRegistry()
	w.check(registry.Register(m))
	for m.Ready() != nil { // the first read may take longer than a scrape waits
		w.check(w.t.Context().Err())
	}
	families, err := registry.Gather()
	w.check(err)
	for _, f := range families {
		if f.GetName() != "headway_stuck_tasks" {
			continue
		}
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, strings.Join(labels, " ")+" "+strconv.FormatFloat(series.GetGauge().GetValue(), 'f', -1, 64))
		}
	}
	return all
}

// The page, `status`, `explain`, `limits show` and the metrics name a cause in the same words. The alert HeadwayStuck
// repeats the metric.
func TestReadersNameTheSameCause(t *testing.T) {
	t.Parallel()
	w := newStuckWorld(t)
	w.enqueue()
	stop := w.work()
	readers := w.readers()
	for id, why := range map[string]cause.Cause{
		"nightly": cause.Paused("nightly"),
		"dafault": cause.Unserved("dafault", 1),
		"lost":    cause.Lacking(register.Need{Limit: "lost"}),
		"default": cause.Lacking(register.Need{Type: "mail"}),
		"called":  cause.Lacking(register.Need{Type: llm.TaskType, Limit: "called", Provider: true}),
		"slow":    cause.Blocked("slow"),
		"spent":   cause.Stopped("spent", bucket.ReasonQuota),
		"slots":   cause.Forgotten("slots"),
		"away":    cause.Store("away"),
	} {
		w.shows(readers, id, why)
	}
	w.namesOne("lost", cause.Lacking(register.Need{Limit: "lost"}), cause.Blocked("slow"))
	w.namesOne("slow", cause.Blocked("slow"), cause.Lacking(register.Need{Limit: "lost"}))
	t.Log("\n" + readers["metrics"])
	stop()
	w.shows(w.readers(), "dafault", cause.Unserved("dafault", 0))
}

// namesOne fails unless `limits show` of one limit has what keeps its tasks, and not what keeps others.
func (w *stuckWorld) namesOne(limit string, own, others cause.Cause) {
	w.t.Helper()
	for _, flag := range []string{"--config=" + w.file, "--json"} {
		_, shown, _ := command(w.t, w.env, "limits", "show", limit, "--config", w.file, flag)
		shown = strings.ReplaceAll(strings.ToLower(shown), `\"`, `"`)
		if !strings.Contains(shown, strings.ToLower(own.Text)) || strings.Contains(shown, strings.ToLower(others.Text)) {
			w.t.Errorf("%s %s:\n%s", limit, flag, shown)
		}
	}
}

// shows fails unless each reader has the cause of the task.
func (w *stuckWorld) shows(readers map[string]string, id string, why cause.Cause) {
	w.t.Helper()
	code, explained, errs := command(w.t, w.env, "explain", id, "--config", w.file)
	if readers["explain"] = explained; code != cli.ExitOK {
		w.t.Errorf("explain of %s: exit code %d: %s", id, code, errs)
	}
	for name, shown := range readers {
		text := why.Text
		if name == "metrics" {
			text = "cause=" + text + " kind=" + string(why.Kind)
		}
		if !strings.Contains(strings.ToLower(shown), strings.ToLower(text)) {
			w.t.Errorf("%s of %s lacks %q:\n%s", name, id, text, shown)
		}
	}
}
