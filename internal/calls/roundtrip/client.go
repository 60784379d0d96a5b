// Package roundtrip lets callers of one process that run Redis scripts at the same moment share a round trip.
package roundtrip

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/coalesce"
)

// Share returns a client for the same Redis whose scripts share round trips, and nothing else. Scripts that are run
// while others are under way go along with the next, as a pipeline. A lone script is sent at once. A script that the
// server does not know yet is run by its caller alone.
func Share(client redis.UniversalClient) redis.UniversalClient {
	s := &shared{UniversalClient: client}
	s.scripts.Call = s.run
	return s
}

type shared struct {
	redis.UniversalClient

	scripts coalesce.Group[struct{}, script, *redis.Cmd]
}

// script is a call of a script by its hash.
type script struct {
	sha1 string
	keys []string
	args []any
}

// EvalSha runs a script that the server knows. When ctx ends before the script is sent, it is not sent.
func (s *shared) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	commands, err := s.scripts.Do(ctx, struct{}{}, script{sha1: sha1, keys: keys, args: args})
	if err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	return commands[0]
}

// run sends scripts in one round trip. Each has its own answer, and its own error.
func (s *shared) run(ctx context.Context, _ struct{}, scripts []script) ([]*redis.Cmd, error) {
	if len(scripts) == 1 {
		return []*redis.Cmd{s.UniversalClient.EvalSha(ctx, scripts[0].sha1, scripts[0].keys, scripts[0].args...)}, nil
	}
	pipe := s.Pipeline()
	commands := make([]*redis.Cmd, len(scripts))
	for i, call := range scripts {
		commands[i] = pipe.EvalSha(ctx, call.sha1, call.keys, call.args...)
	}
	_, err := pipe.Exec(ctx)
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered {
		for _, c := range commands { // the scripts that were answered keep their answers
			if c.Err() == nil && c.Val() == nil {
				c.SetErr(err)
			}
		}
	}
	return commands, nil
}
