package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
)

// KeyStores is a hash with the Identity of each store that the whole fleet has to share, as JSON, by Role. The first
// process writes it, and it stays. To move the fleet, an operator deletes it.
const KeyStores = root + "stores"

// Role is what a store is for.
type Role string

// The roles of stores.
const (
	// RoleBuckets is the store of the buckets.
	RoleBuckets Role = "buckets"
	// RoleRecords is the database of batches, results, learned estimates and dead tasks.
	RoleRecords Role = "records"
)

// ErrSplit is matched by a *SplitError.
var ErrSplit = errors.New("the fleet is split")

// SplitError says that a process uses another store than its fleet. It matches ErrSplit.
type SplitError struct {
	Role Role
	// Own is the store of this process, Fleets the store of the first process of the fleet.
	Own, Fleets reservations.Identity
}

func (e *SplitError) Error() string {
	what, why := "buckets", "each limit would count twice"
	if e.Role == RoleRecords {
		what, why = "batches, results and dead tasks", "each process would see a part of them"
	}
	other := ""
	if e.Own.Place == e.Fleets.Place {
		other = "; it has the same name, but it was emptied, replaced, or is on another server"
	}
	return fmt.Sprintf("%v: the processes of this Redis keep their %s in %v, this one would in %v%s: %s. "+
		"Give it their MONGODB_URI, and their `buckets` of headway.yaml. To move the fleet on purpose, stop all its "+
		"processes and delete the key %s in Redis", ErrSplit, what, e.Fleets, e.Own, other, why, KeyStores)
}

// Is makes the error match ErrSplit.
func (e *SplitError) Is(target error) bool { return target == ErrSplit }

// Agree makes sure that all processes of the Redis use one store in a role. The first process decides, by one atomic
// write. The error is a *SplitError if the fleet uses another store, or says that Redis could not be asked. A zero
// Identity agrees with any.
func (r *Register) Agree(ctx context.Context, role Role, own reservations.Identity) error {
	if own.ID == "" {
		return nil
	}
	text, err := json.Marshal(own)
	var first *redis.StringCmd
	if err == nil {
		_, err = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HSetNX(ctx, KeyStores, string(role), text)
			first = p.HGet(ctx, KeyStores, string(role))
			return nil
		})
	}
	var fleets reservations.Identity
	if err == nil {
		err = json.Unmarshal([]byte(first.Val()), &fleets)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: ask Redis where the fleet keeps its %s (%s): %w", reservations.ErrUnavailable, role,
			KeyStores, err)
	case fleets.ID != own.ID:
		return &SplitError{Role: role, Own: own, Fleets: fleets}
	}
	return nil
}
