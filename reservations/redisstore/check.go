package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/headway-go/headway/reservations"
)

// ErrEvicts is matched when the server may evict buckets, now or once it has a maxmemory: a limit would be exceeded by
// as much.
var ErrEvicts = errors.New("redisstore: redis may evict buckets")

// check asks the server whether it can keep buckets.
func (s *Store) check(ctx context.Context) error {
	if _, err := s.run(ctx, loadScript, reading, ""); err != nil {
		return fmt.Errorf("ask redis whether it can keep buckets "+
			"(it needs EVAL, EVALSHA, GET, SET, TIME and INFO on %s*): %w", root, err)
	}
	const memory = `return redis.call("INFO", "memory")`
	info, err := s.client.Eval(ctx, memory, []string{keyEpoch}).Text() // a key, so that a cluster asks the node
	if err != nil {
		return fmt.Errorf("%w: ask redis for its memory: %w", reservations.ErrUnavailable, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	policy := fields["maxmemory_policy"]
	if policy == "" || policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("%w: maxmemory is %s and maxmemory-policy %s; it must be noeviction, which asynq needs as well",
		ErrEvicts, fields["maxmemory"], policy)
}
