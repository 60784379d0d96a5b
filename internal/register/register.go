// Package register lists the live workers of a fleet in Redis: what each of them can serve, and by which limits.
package register

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// root begins all keys, which are in one hash slot:
	//
	//	members          roll of the IDs of members
	//	member:ID        the Member as JSON
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
	// Limits has the configured meters of each limit, in words by name. AnyLimit is true for a worker that resolves
	// further limits by name.
	Limits   map[string]map[string]string `json:"limits,omitempty"`
	AnyLimit bool                         `json:"any_limit,omitempty"`
}

// Need is what a task needs of a worker: a type of tasks, or a limit, or a meter of a limit.
type Need struct {
	Type, Limit, Meter string
	// Without is set for a task whose charge leaves the meter out: it needs a limit that does not have it.
	Without bool `json:",omitempty"`
}

func (n Need) String() string {
	switch {
	case n.Limit == "":
		return fmt.Sprintf("handler for task type %q", n.Type)
	case n.Meter == "":
		return fmt.Sprintf("limit %q", n.Limit)
	case n.Without:
		return fmt.Sprintf("limit %q without meter %q, which the charge of the task leaves out", n.Limit, n.Meter)
	}
	return fmt.Sprintf("meter %q in limit %q", n.Meter, n.Limit)
}

// Serves reports whether the member has what a task needs.
func (m Member) Serves(n Need) bool {
	if n.Limit == "" {
		return m.Types == nil || slices.Contains(m.Types, n.Type)
	}
	limit, ok := m.Limits[n.Limit]
	if !ok {
		return m.AnyLimit
	}
	return n.Meter == "" || (limit[n.Meter] != "") != n.Without
}

// Remedy says what ends that no live worker has it.
func (n Need) Remedy() string {
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
	for limit, meters := range m.Limits {
		others, both := other.Limits[limit]
		if !both {
			continue
		}
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
	text, err := json.Marshal(m)
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

// Members returns the live workers, by name. A worker that was killed counts for up to 15 seconds more.
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
	if err != nil {
		return all, fmt.Errorf("read the register of workers: %w", err)
	}
	return all, nil
}
