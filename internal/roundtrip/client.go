package roundtrip

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// Share returns a client for the same Redis whose scripts share round trips, and nothing else: those that are run while others are
// under way go along with the next, as a pipeline. A lone one is sent at once. A script that the server does not know yet is run by its caller alone.
func Share(client redis.UniversalClient) redis.UniversalClient {
	s := &shared{UniversalClient: client}
	s.scripts.Call = s.run
	return s
}

const (
	// endsWait is how long the end of a task may wait for others to share a round trip with.
	endsWait = time.Millisecond
	// endsOf is one over the part of a server's slots that may wait so.
	endsOf = 4
	// endsLeast is how many have to be able to wait so, for it to be worth while.
	endsLeast = 2
)

// ShareEnds returns a client of an asynq server with so many slots. What asynq sends when a task has ended goes along with what it sends
// for others, and while many end it waits for that, for a millisecond at most. asynq gives these scripts a deadline, that of the task's lease. What has none goes alone, at
// once: asynq takes tasks one after the other. While Redis is away the ends are kept for it, until the task's lease is over or stopping is closed, and a task that Redis gave without being
// heard is the next that asynq takes.
func ShareEnds(client redis.UniversalClient, slots int, stopping <-chan struct{}) redis.UniversalClient {
	s := &shared{UniversalClient: client, bounded: true, stopping: stopping}
	s.takes = takes{retaking: redis.NewScript(retakeScript), mark: rand.Int64N(marks), lost: map[string]lease{}} //nolint:gosec // needs no secrecy
	s.scripts.Call = s.run
	if enough := min(slots/endsOf, togetherMost); enough >= endsLeast {
		s.scripts.Gather, s.scripts.Enough = endsWait, enough
	}
	return s
}

type shared struct {
	redis.UniversalClient

	bounded  bool // only scripts with a deadline are shared, and they outlast that Redis is away
	stopping <-chan struct{}
	takes    takes // of those that are not shared
	scripts  Together[script, *redis.Cmd]
}

// script is a call of one by its hash.
type script struct {
	sha1 string
	keys []string
	args []any
}

// EvalSha runs a script that the server knows.
func (s *shared) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	call := script{sha1: sha1, keys: keys, args: args}
	if !s.bounded {
		return s.ask(ctx, call)
	}
	if _, bounded := ctx.Deadline(); bounded {
		return s.outlast(ctx, call)
	}
	if isTake(call) {
		return s.take(ctx, call)
	}
	return s.UniversalClient.EvalSha(ctx, sha1, keys, args...)
}

// ask runs a script together with others.
func (s *shared) ask(ctx context.Context, call script) *redis.Cmd {
	cmd, err := s.scripts.Ask(ctx, call)
	if err != nil {
		cmd = redis.NewCmd(ctx)
		cmd.SetErr(err)
	}
	return cmd
}

// run sends scripts in one round trip. Each has its own answer, and its own error.
func (s *shared) run(ctx context.Context, scripts []script) ([]*redis.Cmd, error) {
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
		for _, c := range commands { // those that were answered keep their answers
			if c.Err() == nil && c.Val() == nil {
				c.SetErr(err)
			}
		}
	}
	return commands, nil
}
