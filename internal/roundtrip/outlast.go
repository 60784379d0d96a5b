package roundtrip

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// awayPauseMin and awayPauseMax bound how long a script that Redis did not answer is not tried again: twice as long after each try.
	awayPauseMin = 100 * time.Millisecond
	awayPauseMax = time.Second
	// awayLook bounds the look at whether it was done before that.
	awayLook = time.Second
)

// outlast runs a script that ends a delivery, and while Redis is away tries it again until ctx, which ends with the task's lease, or the server's stop. asynq does not: its
// syncer uses the context of the first try, which has ended by then, so the task would be nobody's until its lease is over and asynq's recoverer has seen it. What was done, and whose answer was
// lost, is not done again: by then the task may run elsewhere.
func (s *shared) outlast(ctx context.Context, call script) *redis.Cmd {
	cmd := s.ask(ctx, call)
	key := call.taskKey()
	for pause := awayPauseMin; key != "" && away(cmd.Err()); pause = min(2*pause, awayPauseMax) {
		select {
		case <-time.After(pause):
		case <-s.stopping:
			return cmd
		case <-ctx.Done():
			return cmd
		}
		switch done, err := s.done(ctx, key, call); {
		case away(err):
		case err != nil:
			return cmd
		case done:
			return redis.NewCmdResult("OK", nil)
		default:
			cmd = s.ask(ctx, call)
		}
	}
	return cmd
}

// away says whether a command did not reach Redis, or nobody was there who could do it.
func away(err error) bool {
	if err == nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	_, answered := errors.AsType[redis.Error](err)
	return !answered || redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err)
}

// done says whether the script was run, as asynq's record of the task has it: that is gone, or what the script writes is there, or something later. Where another machine's clock is
// ahead it may say so too often; then the task is left to its lease.
func (s *shared) done(ctx context.Context, key string, call script) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, awayLook)
	defer cancel()
	stands, err := s.UniversalClient.HGet(ctx, key, "msg").Result()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	writes, returns := call.args[1].([]byte)
	return returns && (stands == string(writes) || failedAt([]byte(stands)) > failedAt(writes)), err
}

// taskKey is asynq's key of the task that is named first; empty where there is none. The scripts that send a task back or archive it have its new message next.
func (c script) taskKey() string {
	if len(c.args) < 2 {
		return ""
	}
	id, _ := c.args[0].(string)
	for _, key := range c.keys {
		if strings.HasSuffix(key, ":t:"+id) {
			return key
		}
	}
	return ""
}

// messageFailedAt is the number of the field in asynq's message (TaskMessage in its protocol buffers) that says when the task was last sent back, in seconds.
const messageFailedAt = 11

// failedAt is when the task of the message was last sent back; zero where it never was.
func failedAt(message []byte) uint64 {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0
		}
		message = message[n:]
		if field == messageFailedAt && kind == protowire.VarintType {
			at, _ := protowire.ConsumeVarint(message)
			return at
		}
		if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
			return 0
		}
		message = message[n:]
	}
	return 0
}
