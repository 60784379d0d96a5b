package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// openWorld returns a fleet's limiter and scheduler in the world of a test.
func openWorld(t *testing.T, env map[string]string, file string) *session.Session {
	t.Helper()
	s, err := session.Load(contextOf(t, env), cli.Environment{Getenv: func(k string) string { return env[k] }}, file,
		session.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(t.Context()) })
	return s
}

// expectedIn is when the last task of a bucket is expected to start, as its dispatcher knows.
func expectedIn(t *testing.T, s *session.Session, bucket string, waiting int) time.Duration {
	t.Helper()
	w, err := inside.Of(s.Scheduler).Waitlist(context.WithoutCancel(t.Context()), bucket)
	if err != nil || w.Waiting != waiting || w.End.IsZero() {
		t.Fatalf("waitlist of %s: %+v, %v", bucket, w, err)
	}
	return w.End.Sub(w.Now)
}

// A reset reaches the dispatcher, so waiting tasks start at once.
func TestLimitsReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		fleet := openWorld(t, env, file)
		testenv.Serve(t, fleet.Queue, "default")
		b := &limitsBundle{t: t, file: file, env: env}
		acme := reservations.Charge{Limit: "api", Key: "acme", Tokens: reservations.Tokens{"requests": 60}}
		acme.Held = bucket.StateWaiting
		if o, err := inside.Of(fleet.Limiter).Ask(t.Context(), acme); err != nil || !o.Started() {
			t.Fatal(o, err)
		}
		if o, err := inside.Of(fleet.Limiter).Ask(t.Context(), acme); err != nil || o.Started() {
			t.Fatal("an empty bucket lets a task start:", o, err)
		} else {
			inside.Of(fleet.Scheduler).Changed(o)
		}
		if err := fleet.Scheduler.Stop(t.Context()); err != nil { // sends what was changed
			t.Fatal(err)
		}
		if in := expectedIn(t, fleet, "api:acme", 2); in < 100*time.Second {
			t.Errorf("two tasks of a minute each behind an empty bucket are expected in %v", in)
		}
		other := expectedIn(t, fleet, "api", 3)
		b.run(cli.ExitOK, []string{"api:acme is full again\n"}, "reset", "api:acme")
		if in := expectedIn(t, fleet, "api:acme", 2); in > time.Minute || in < 55*time.Second {
			t.Errorf("the second task of a minute is expected %v after the bucket was filled", in)
		}
		if o, err := inside.Of(fleet.Limiter).Ask(t.Context(), acme); err != nil || !o.Started() {
			t.Error("a full bucket does not let a task start:", o, err)
		}
		if in := expectedIn(t, fleet, "api", 3); in > other || in < other-30*time.Second {
			t.Errorf("the bucket of no key was changed: %v, and before %v", in, other)
		}
		b.run(cli.ExitUsage, []string{`"opanai" is not configured; there are "api", "idle"`}, "reset", "opanai")
		b.run(cli.ExitUsage, []string{`"api#1" is one shard`, `name "api"`}, "reset", "api#1")
		b.run(cli.ExitUsage, []string{`"api#1" is one shard`, `name "api"`}, "unblock", "api#1")
	})
}

func TestLimitsUnblock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, file := waitingWorld(t)
		fleet := openWorld(t, env, file)
		testenv.Serve(t, fleet.Queue, "default")
		b := &limitsBundle{t: t, file: file, env: env}
		back := []string{"api was not blocked\n"}
		b.run(cli.ExitOK, back, "unblock", "api")
		outcomes, err := inside.Of(fleet.Limiter).Block(t.Context(), reservations.Charge{Limit: "api"}, 24*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if end := outcomes[0].Wait(); end != bucket.MaxBlockDefault {
			t.Errorf("a refusal for a day blocks for %v", end)
		}
		inside.Of(fleet.Scheduler).Changed(outcomes[0])
		if err = fleet.Scheduler.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if in := expectedIn(t, fleet, "api", 3); in < bucket.MaxBlockDefault {
			t.Errorf("behind a block of %v the last task is expected in %v", bucket.MaxBlockDefault, in)
		}
		b.run(cli.ExitOK, []string{
			"is blocked, because a provider refused a call: 3 tasks wait, for ", "` ends that",
		}, "show", "api:")
		b.run(cli.ExitOK, []string{"api is not blocked any more: ", "m", "were left\n"}, "unblock", "api")
		if in := expectedIn(t, fleet, "api", 3); in > 3*time.Minute+time.Second || in < 2*time.Minute {
			t.Errorf("three tasks of a minute each, from an empty bucket, are expected in %v", in)
		}
		e, err := fleet.Scheduler.Explain(t.Context(), "default", "b")
		if err != nil || e.Reason != scheduler.ReasonLimit {
			t.Errorf("the last task: %+v, %v", e, err)
		}
	})
}
