package asynqdb

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// A script that Redis did not answer is repeated after awayPauseMin, then after twice as long each time, at most
	// awayPauseMax.
	awayPauseMin = 100 * time.Millisecond
	awayPauseMax = time.Second
	// awayLook bounds the read of a task's record.
	awayLook = time.Second
)

// finish runs a script that ends a delivery. While Redis is away it repeats the script until ctx ends, which is the
// end of the task's lease, or until the server stops. asynq's own syncer repeats it with a context that has ended by
// then, so the task would wait for asynq's recoverer.
//
// A script that was run, and whose answer was lost, is not repeated: the task may run elsewhere by then.
func (s *Server) finish(ctx context.Context, call script) *redis.Cmd {
	run := func() *redis.Cmd { return s.shared.EvalSha(ctx, call.sha1, call.keys, call.args...) }
	if snooze, ok := s.snoozed(call); ok {
		call = snooze
		run = func() *redis.Cmd { return s.snooze.Run(ctx, s.shared, call.keys, call.args...) }
	}
	cmd, key := run(), call.taskKey()
	defer func() {
		if call.isRequeue() {
			s.announce(ctx, call.keys[2], 1)
		}
	}()
	for pause := awayPauseMin; key != "" && away(cmd.Err()); pause = min(2*pause, awayPauseMax) {
		select {
		case <-time.After(pause):
		case <-s.Stopping:
			return cmd
		case <-ctx.Done():
			return cmd
		}
		switch done, err := s.finished(ctx, key, call); {
		case away(err):
		case err != nil:
			return cmd
		case done:
			return redis.NewCmdResult("OK", nil)
		default:
			cmd = run()
		}
	}
	return cmd
}

// finished reports whether the script was run: asynq's record of the task is gone, or has the message that the script
// writes, or a later one. Where another machine's clock is ahead, the answer may be true too often. Then asynq
// delivers the task again after its lease.
func (s *Server) finished(ctx context.Context, key string, call script) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, awayLook)
	defer cancel()
	stored, err := s.HGet(ctx, key, "msg").Result()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	// The scripts that retry or archive a task have its new message as their second argument.
	written, ok := call.args[1].([]byte)
	return ok && (stored == string(written) || failedAt([]byte(stored)) > failedAt(written)), err
}
