package headway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/test/imports"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// letter takes one request of the limit "mail".
type letter struct {
	Name string
	Bad  bool
}

func (letter) TaskType() string { return "letter" }

func (letter) Charges() []headway.Charge { return mail }

func (l letter) TaskOptions() headway.Options {
	return headway.Options{ID: l.Name, Retention: time.Hour}
}

var (
	mail  = []headway.Charge{{Limit: "mail", Tokens: headway.Tokens{"requests": 1}}}
	quiet = worker.Config{Logger: slog.New(slog.DiscardHandler)}
)

// newClient returns a client whose limit "mail" is one request in ten seconds.
func newClient(t *testing.T, f *headwaytest.Fleet) *headway.Client {
	t.Helper()
	hw, err := headway.New(f.Client(), headway.Config{Worker: quiet, Limits: headway.Limits{
		"mail": {{Name: "requests", Rate: 6, Period: time.Minute, Capacity: 1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return hw
}

// running runs the client until the function that it returns is called.
func running(t *testing.T, f *headwaytest.Fleet, hw *headway.Client) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	ended := make(chan error, 1)
	go func() { ended <- hw.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestClientRunsItsTasks(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		hw, began := newClient(t, f), time.Now()
		var ran []string
		var ids []string
		headway.Handle(hw, func(_ context.Context, job *headway.Job[letter]) error {
			ran, ids = append(ran, job.Args.Name), append(ids, time.Since(began).Round(time.Second).String())
			if job.Args.Bad {
				return tasks.Permanent(errors.New("no such address"))
			}
			return nil
		})
		_, err := hw.EnqueueMany(f.Context(), []tasks.Args{
			letter{Name: "a"}, letter{Name: "b", Bad: true}, letter{Name: "c"}, letter{Name: "d"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if id, failed := hw.Dispatcher(f.Context()); id != "" || failed != nil {
			t.Errorf("%q is on duty before the client runs: %v", id, failed)
		}
		stop := running(t, f, hw)
		f.Run(25 * time.Second) // a new Redis begins with an empty bucket: a at 10 s, b at 20 s
		if id, failed := hw.Dispatcher(f.Context()); id == "" || failed != nil {
			t.Errorf("no process is on duty: %v", failed)
		}
		limits, err := hw.Limits(f.Context())
		if err != nil || len(limits) != 1 || len(limits[0].Buckets) != 1 {
			t.Fatalf("%+v: %v", limits, err)
		}
		if b := limits[0].Buckets[0]; limits[0].Name != "mail" || b.Waiting != 2 || b.Meters[0].Rate != 6 || b.Fault != "" ||
			time.Until(b.End).Round(time.Second) != 15*time.Second {
			t.Errorf("%+v", b)
		}
		for id, want := range map[string]scheduler.Reason{
			"a": scheduler.ReasonCompleted, "b": scheduler.ReasonArchived,
			"c": scheduler.ReasonLimit, "d": scheduler.ReasonLimit,
		} {
			if e, err := hw.Explain(f.Context(), "", id); err != nil || e.Reason != want {
				t.Errorf("%s: %s, wanted %s: %v", id, e.Reason, want, err)
			}
		}
		if _, err := hw.Explain(f.Context(), "default", "e"); !errors.Is(err, asynq.ErrTaskNotFound) {
			t.Error(err)
		}
		var archived []string
		for task, err := range hw.Archived(f.Context(), "default") {
			if err != nil {
				t.Fatal(err)
			}
			archived = append(archived, task.ID+": "+task.LastErr)
		}
		if len(archived) != 1 || archived[0] != "b: no such address" {
			t.Errorf("%q", archived)
		}
		if err := hw.Delete(f.Context(), "", "c"); err != nil { // d moves on to its place
			t.Error(err)
		}
		f.Run(10 * time.Second)
		stop()
		if got := strings.Join(ran, " ") + " " + strings.Join(ids, " "); got != "a b d 10s 20s 30s" {
			t.Error(got)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		hw := newClient(t, f)
		headway.Handle(hw, func(ctx context.Context, job *headway.Job[letter]) error {
			if job.Args.Bad {
				return tasks.Permanent(errors.New("no such address"))
			}
			<-ctx.Done()
			return ctx.Err()
		})
		for _, l := range []letter{{Name: "bad", Bad: true}, {Name: "runs"}, {Name: "waits"}} {
			if _, err := hw.Enqueue(f.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		stop := running(t, f, hw)
		defer stop()
		f.Run(25 * time.Second)
		for _, c := range []struct {
			id   string
			want error
		}{
			{"bad", nil},
			{"bad", asynq.ErrTaskNotFound},
			{"runs", headway.ErrRuns},
			{"waits", nil},
			{"waits", asynq.ErrTaskNotFound},
		} {
			if err := hw.Delete(f.Context(), "default", c.id); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Errorf("%s: %v, wanted %v", c.id, err, c.want)
			}
		}
	})
}

// Direct calls of clients that run no tasks wait in line, under the overrides of the fleet. Such a process is no
// worker.
func TestDoWithoutRun(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		store, err := redisstore.Open(f.Context(), f.Client())
		if err == nil {
			err = store.SetOverride(f.Context(), reservations.Override{
				Limit: "mail", Meter: "requests", Rate: 60, Period: time.Minute, By: "test", SetAt: time.Now(),
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		began, hw, other := time.Now(), newClient(t, f), newClient(t, f)
		starts := make(chan time.Duration, 6)
		for i := range 6 {
			go func() {
				caller := []*headway.Client{hw, other}[i%2]
				failed := caller.Do(f.Context(), mail, func(context.Context) (headway.Tokens, error) {
					starts <- time.Since(began)
					return nil, nil
				})
				if failed != nil {
					t.Error(failed)
				}
			}()
		}
		for i := range 6 {
			if at := <-starts; at.Round(time.Second) != time.Duration(i+1)*time.Second {
				t.Errorf("call %d started at %v", i, at)
			}
		}
		f.Run(10 * time.Second)
		if members, failed := register.New(f.Client()).Members(f.Context()); failed != nil || len(members) > 0 {
			t.Errorf("%v are workers: %v", members, failed)
		}
		for _, c := range []*headway.Client{hw, other, other} {
			if err = c.Close(f.Context()); err != nil {
				t.Error(err)
			}
		}
		err = hw.Do(f.Context(), mail, func(context.Context) (headway.Tokens, error) { return nil, nil })
		if !errors.Is(err, scheduler.ErrStopped) {
			t.Error(err)
		}
	})
}

// public are the packages that a program imports, below the path of the module.
var public = []string{
	"", "/worker", "/scheduler", "/deadtasks", "/reservations/redisstore", "/tasks/llm", "/tasks/web",
}

// wantNoDriver fails for a package that is heavy. Package bson is the stored form of a bucket.
func wantNoDriver(t *testing.T, deps []string) {
	t.Helper()
	for _, dep := range deps {
		for _, heavy := range []string{
			"go.mongodb.org/mongo-driver/v2/mongo", "go.mongodb.org/mongo-driver/v2/x/mongo", "github.com/prometheus",
			"github.com/spf13/cobra", "go.opentelemetry.io/otel/sdk", "testing",
		} {
			if dep == heavy || strings.HasPrefix(dep, heavy+"/") {
				t.Error(dep)
			}
		}
	}
	if len(deps) < 100 {
		t.Errorf("only %d packages", len(deps))
	}
}

// A program that imports what stands here, and chooses no database, imports none by packages of Headway.
func TestImportsNoDriver(t *testing.T) {
	t.Parallel()
	all, seen := imports.All(t, "."), map[string]bool{}
	var add func(pkg string)
	add = func(pkg string) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, imported := range all[pkg] {
			add(imported)
		}
	}
	for _, pkg := range public {
		add(imports.Module + pkg)
	}
	wantNoDriver(t, slices.Collect(maps.Keys(seen)))
}

// Such a program compiles no database by any package.
func TestCompilesNoDriver(t *testing.T) {
	t.Parallel()
	night.Only(t, "calls the go command")
	list := exec.CommandContext(t.Context(), "go", "list", "-deps")
	for _, pkg := range public {
		list.Args = append(list.Args, imports.Module+pkg)
	}
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	wantNoDriver(t, strings.Fields(string(out)))
}

// Without Charge all tasks of the program would be unlimited.
func TestAdoptWantsACharge(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	_, err := headway.Adopt(client, headway.Config{Limits: headway.Limits{"api": {headway.PerSecond("requests", 1)}}})
	if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || fault.Field != "charge" {
		t.Error(err)
	}
}

// A Redis that may evict buckets is refused before a task or a call starts.
func TestRefusesARedisThatEvicts(t *testing.T) {
	t.Parallel()
	headwaytest.Run(t, func(f *headwaytest.Fleet) {
		f.Client().AddHook(evicting{})
		hw := newClient(t, f)
		headway.Handle(hw, func(context.Context, *headway.Job[letter]) error { return nil })
		if err := hw.Run(f.Context()); !errors.Is(err, redisstore.ErrEvicts) {
			t.Error(err)
		}
		err := newClient(t, f).Do(f.Context(), mail, func(context.Context) (headway.Tokens, error) {
			t.Error("a call started")
			return nil, nil
		})
		if !errors.Is(err, redisstore.ErrEvicts) {
			t.Error(err)
		}
	})
}

// evicting answers that Redis may evict keys.
type evicting struct{}

func (evicting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (evicting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (evicting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if answer, ok := cmd.(*redis.Cmd); ok && strings.Contains(fmt.Sprint(cmd.Args()...), `"INFO", "memory"`) {
			answer.SetVal("maxmemory:1\r\nmaxmemory_policy:allkeys-lru\r\n")
			return nil
		}
		return next(ctx, cmd)
	}
}
