package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// identified is a store with an identity, which is away until a moment.
type identified struct {
	reservations.Store
	id   string
	back time.Time
}

func (n *identified) Identity(context.Context) (reservations.Identity, error) {
	if time.Now().Before(n.back) {
		return reservations.Identity{}, fmt.Errorf("%w: connection refused", reservations.ErrUnavailable)
	}
	return reservations.Identity{ID: n.id, Place: "MongoDB, database " + n.id}, nil
}

// A scheduler that was not started compares the stores before it reserves for a task.
func TestSplitProducers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store string
		args  tasks.Args
		away  time.Duration // for how long the store does not answer
		want  error
	}{
		"the fleet's store":      {"a", limited{}, 0, nil},
		"another store":          {"b", limited{}, 0, scheduler.ErrSplit},
		"a task without a limit": {"b", unlimited{}, 0, nil},
		"a store that was away":  {"b", limited{}, time.Second, scheduler.ErrSplit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := inMemory(t)
				open := func(id string, away time.Duration) *scheduler.Scheduler {
					limiter, err := reservations.New(&identified{memstore.New(), id, time.Now().Add(away)},
						[]reservations.Limit{{Name: "limit", Meters: []reservations.Meter{reservations.PerSecond("requests", 9)}}},
						reservations.Config{})
					if err != nil {
						t.Fatal(err)
					}
					s, err := scheduler.New(client, limiter, scheduler.Config{Logger: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				fleet := open("a", 0)
				if err := fleet.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = fleet.Stop(context.WithoutCancel(t.Context())) }()
				producer := open(c.store, c.away)
				defer func() { _ = producer.Stop(context.WithoutCancel(t.Context())) }()
				for c.away > 0 {
					_, err := producer.Enqueue(t.Context(), c.args)
					if err != nil {
						t.Fatal(err)
					}
					<-time.After(6 * time.Second)
					c.away = 0
				}
				if _, err := producer.Enqueue(t.Context(), c.args); !errors.Is(err, c.want) || (err != nil) != (c.want != nil) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

type limited struct{}

func (limited) TaskType() string { return "limited" }

func (limited) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "limit", Tokens: reservations.Tokens{"requests": 1}}}
}

type unlimited struct{}

func (unlimited) TaskType() string { return "unlimited" }

// A process whose store is not that of its fleet starts no limited task: it does not start at all, or it halts as soon
// as its store answers.
func TestSplitFleets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second string
		away          time.Duration // for how long the second store does not answer
		refused       bool          // at the start
		halted        bool          // a minute later
	}{
		"one store":                  {first: "a", second: "a"},
		"two stores":                 {first: "a", second: "b", refused: true},
		"two stores, one without ID": {first: "a", second: ""},
		"a store that was away":      {first: "a", second: "a", away: 20 * time.Second},
		"another store that was away": {
			first: "a", second: "b", away: 20 * time.Second, halted: true,
		},
		"another store that is still away": {first: "a", second: "b", away: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := inMemory(t)
				start := func(id string, away time.Duration) (*reservations.Limiter, *scheduler.Scheduler, error) {
					limiter, err := reservations.New(&identified{memstore.New(), id, time.Now().Add(away)},
						[]reservations.Limit{{Name: "openai", Meters: []reservations.Meter{
							{Name: "requests", Rate: 1, Period: time.Second, Capacity: 5},
						}}}, reservations.Config{})
					if err != nil {
						t.Fatal(err)
					}
					s, err := scheduler.New(client, limiter, scheduler.Config{Logger: slog.New(slog.DiscardHandler)})
					if err != nil {
						t.Fatal(err)
					}
					return limiter, s, s.Start(t.Context())
				}
				_, one, err := start(c.first, 0)
				defer func() { _ = one.Stop(context.WithoutCancel(t.Context())) }()
				if err != nil {
					t.Fatal(err)
				}
				limiter, two, err := start(c.second, c.away)
				defer func() { _ = two.Stop(context.WithoutCancel(t.Context())) }()
				var split *register.SplitError
				if errors.Is(err, scheduler.ErrSplit) != c.refused || (err != nil) != c.refused ||
					errors.As(err, &split) && (split.Own.ID != c.second || split.Fleets.ID != c.first) {
					t.Errorf("start: %v", err)
				}
				<-time.After(time.Minute)
				_, err = inside.Of(limiter).Ask(t.Context(), reservations.Charge{
					Limit: "openai", Tokens: reservations.Tokens{"requests": 1},
				})
				if errors.Is(err, scheduler.ErrSplit) != c.halted || errors.Is(err, reservations.ErrUnavailable) != c.halted {
					t.Errorf("after a minute: %v", err)
				}
				if !c.halted {
					return
				}
				if err = client.HDel(t.Context(), register.KeyStores, "buckets").Err(); err != nil {
					t.Fatal(err)
				}
				<-time.After(2 * time.Minute) // the first store counts again: its process still runs
				if v := client.HGet(t.Context(), register.KeyStores, "buckets").Val(); !strings.Contains(v, `"id":"`) {
					t.Errorf("the fleet agrees on %q", v)
				}
			})
		})
	}
}
