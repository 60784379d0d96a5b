// Package register lists the live workers of a fleet in Redis: what each of them can serve, and by which limits.
package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

const (
	// root begins all keys, which are in one hash slot:
	//
	//	members          roll of the IDs of members.
	//	member:ID        the Member as JSON.
	//	limits:HASH      string with an expiry: the limits of members as JSON.
	//	returned:TASK    string with an expiry: when a worker first returned the task, because it can't serve it.
	//	lacked           sorted set of what such tasks need, by when one was returned last.
	//	unserved:NEED    sorted set of the tasks that were returned because of this need, by when each was last.
	root = "headway:{fleet}:"
	// RenewEvery is how often a worker renews its entry, and lives is how long an entry lasts.
	RenewEvery = 5 * time.Second
	lives      = 3 * RenewEvery
)

// Member is a live worker.
type Member struct {
	// Name is host:pid.
	Name string `json:"name"`
	// Types are the types of tasks that have a handler. Nil means any: a program that adopted Headway has its own mux.
	Types []string `json:"types,omitempty"`
	// Limits are the configured limits, by name. AnyLimit is true for a worker that resolves further limits by name.
	Limits   map[string]reservations.Limit `json:"-"`
	AnyLimit bool                          `json:"any_limit,omitempty"`
	// Hash is that of the limits: members with the same limits store them once. Empty without limits.
	Hash string `json:"limits,omitempty"`
	// Uncalled are the limits whose provider the worker can't call, because it has none for them or lacks its key.
	Uncalled []string `json:"-"`
}

// Need is what a task needs of a worker: a type of tasks, or a limit, or a meter of a limit, or the provider of a limit
// for calls of a type.
type Need struct {
	Type, Limit, Meter string
	// Without is set for a task whose charge leaves the meter out: it needs a limit that does not have it.
	Without bool `json:",omitempty"`
	// Provider is set for a call. An empty limit is then that of calls without a limit.
	Provider bool `json:",omitempty"`
}

func (n Need) String() string {
	switch {
	case n.Provider && n.Limit == "":
		return "provider for calls without a limit"
	case n.Provider:
		return fmt.Sprintf("provider for limit %q, with its key", n.Limit)
	case n.Limit == "":
		return fmt.Sprintf("handler for task type %q", n.Type)
	case n.Meter == "":
		return fmt.Sprintf("limit %q", n.Limit)
	case n.Without:
		return fmt.Sprintf("limit %q without meter %q, which the charge of the task leaves out", n.Limit, n.Meter)
	}
	return fmt.Sprintf("meter %q in limit %q", n.Meter, n.Limit)
}

// None says that no live worker serves it.
func (n Need) None() string { return "no live worker has " + n.String() }

// Serves reports whether the member has what a task needs.
func (m Member) Serves(n Need) bool {
	if n.Provider {
		return m.Serves(Need{Type: n.Type}) && (n.Limit == "" || m.Serves(Need{Limit: n.Limit})) &&
			!slices.Contains(m.Uncalled, n.Limit)
	}
	if n.Limit == "" {
		return m.Types == nil || slices.Contains(m.Types, n.Type)
	}
	limit, ok := m.Limits[n.Limit]
	if !ok {
		return m.AnyLimit || n.Limit == bucket.BudgetLimit
	}
	has := slices.ContainsFunc(limit.Meters, func(m reservations.Meter) bool { return m.Name == n.Meter })
	return n.Meter == "" || has != n.Without
}

// Remedy says what ends that no live worker has it.
func (n Need) Remedy() string {
	if n.Provider {
		return "name it under `providers` in the headway.yaml of the workers, set its key, and restart them"
	}
	if n.Limit == "" {
		return "start a worker that has it"
	}
	if n.Without {
		return "enqueue the task again with a charge that says what it takes of the meter, 0 for none"
	}
	return "add it to `limits` in the headway.yaml of the workers, and run `headway reload`"
}

// Lacking returns the first need that no member serves; nil if there is none, or no member is known.
func Lacking(members []Member, needs ...Need) *Need {
	for _, n := range needs {
		if len(members) > 0 && !slices.ContainsFunc(members, func(m Member) bool { return m.Serves(n) }) {
			return &n
		}
	}
	return nil
}

// Difference is a meter of a limit that two members have with different settings. A setting is empty if the limit has
// no such meter.
type Difference struct{ Limit, Meter, Here, There string }

// Differences returns the meters of the limits of both members that differ, by limit and meter.
func (m Member) Differences(other Member) []Difference {
	var all []Difference
	for limit, own := range m.Limits {
		theirs, both := other.Limits[limit]
		if !both {
			continue
		}
		meters, others := MeterTexts(own), MeterTexts(theirs)
		for meter, here := range meters {
			if there := others[meter]; there != here {
				all = append(all, Difference{limit, meter, here, there})
			}
		}
		for meter, there := range others {
			if _, ok := meters[meter]; !ok {
				all = append(all, Difference{limit, meter, "", there})
			}
		}
	}
	slices.SortFunc(all, func(a, b Difference) int {
		return strings.Compare(a.Limit+"\n"+a.Meter, b.Limit+"\n"+b.Meter)
	})
	return all
}

// Register is the list of live workers in one Redis. It is safe for concurrent use.
type Register struct{ client redis.UniversalClient }

// New returns the register in the Redis of the client.
func New(client redis.UniversalClient) *Register { return &Register{client: client} }

// Renew adds a worker to the register, or renews its entry. Its ID is unique.
func (r *Register) Renew(ctx context.Context, id string, m Member) error {
	limits, err := packed(&m)
	var text []byte
	if err == nil {
		text, err = json.Marshal(m)
	}
	if err == nil && limits != nil {
		err = r.publish(ctx, m.Hash, limits) // before a reader of the member needs them
	}
	if err != nil {
		return fmt.Errorf("register the worker: %w", err)
	}
	_, err = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		members.enter(ctx, p, id, text)
		return nil
	})
	if err != nil {
		return fmt.Errorf("register the worker: %w", err)
	}
	return nil
}

// Leave removes a worker from the register.
func (r *Register) Leave(ctx context.Context, id string) error {
	if err := members.leave(ctx, r.client, id); err != nil {
		return fmt.Errorf("remove the worker from the register: %w", err)
	}
	return nil
}

// Members returns the live workers with their limits, by name. A worker that was killed counts for up to 15 seconds
// more.
func (r *Register) Members(ctx context.Context) ([]Member, error) {
	texts, err := members.living(ctx, r.client)
	var all []Member
	for _, text := range texts {
		var m Member
		if json.Unmarshal([]byte(text), &m) == nil { // else it is of another version
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	if err == nil {
		err = errors.Join(r.unpack(ctx, all), r.addUncalled(ctx, all))
	}
	if err != nil {
		return all, fmt.Errorf("read the register of workers: %w", err)
	}
	return all, nil
}
