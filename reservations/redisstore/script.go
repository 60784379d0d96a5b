package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/lua"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/calls/rediserr"
)

// The keys, below root. All times are whole microseconds of Redis's clock, in 16 digits.
//
//	bucket:NAME  string: the header, then the bucket as BSON, which is empty after a reset. The header is the epoch in
//	             which it was written, and the ID of the call that wrote it.
//	epoch        string: when this run of the server was first seen, and its run_id
//	queue:NAME   list: IDs of calls that lost a swap. Only the first of them may swap; if it does not for queueKept, the
//	             whole queue is forgotten
//	state:ID     list: for the call that has become the first of its queue, what loadScript returns
//	overrides    hash: overrides as BSON, by limit and meter
const root = "headway:{buckets}:"

const (
	keyEpoch     = root + "epoch"
	keyOverrides = root + "overrides"

	anyHeader = "any"
	noHeader  = "none"

	timeSize   = 16
	headerSize = 2 * timeSize
)

func keyBucket(name string) string { return root + "bucket:" + name }
func keyQueue(name string) string  { return root + "queue:" + name }
func keyState(call string) string  { return root + "state:" + call }

//go:embed lua
var files embed.FS

//nolint:gochecknoglobals // constant
var (
	loadScript = newScript("preamble", "load")
	swapScript = newScript("preamble", "swap")
)

// script is a Lua script.
type script struct{ source, hash string }

func newScript(names ...string) script {
	source := lua.Source(files, names...)
	return script{source: source, hash: redis.NewScript(source).Hash()}
}

// kind says whether a script writes a bucket, so that it must not be repeated.
type kind bool

const (
	reading kind = false
	writing kind = true
)

// once is a command that the client does not repeat: a swap whose answer is lost may have been applied. Store.call
// repeats it where the server turned it away.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run runs a script on a bucket. It returns the state that the script returned, and the place of the call in the queue:
// written, and only the clock, where the bucket was written. The error is an UnavailableError.
func (s *Store) run(
	ctx context.Context, sc script, k kind, name string, args ...any,
) (seen state, place int64, err error) {
	if err = ctx.Err(); err != nil {
		return state{}, 0, &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
	}
	all := append([]any{3, keyBucket(name), keyQueue(name), keyEpoch}, args...)
	answer, err := s.call(ctx, k, append([]any{"evalsha", sc.hash}, all...)...)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		answer, err = s.call(ctx, k, append([]any{"eval", sc.source}, all...)...)
	}
	switch {
	case err != nil:
		return state{}, 0, &bucket.UnavailableError{
			Bucket: name, Applied: applied(k, err), BucketOnly: redis.HasErrorPrefix(err, "WRONGTYPE"), Err: explained(err),
		}
	case k == writing && len(answer) == 1:
		text, _ := answer[0].(string)
		seen.Reading, err = s.read(name, text)
		return seen, written, err
	case len(answer) != 2:
		return state{}, 0, ofBucket(name, fmt.Errorf("%w: %v", errAnswer, answer))
	}
	place, _ = answer[1].(int64)
	seen, err = s.parse(name, answer[0])
	return seen, place, err
}

// call sends one command and returns when ctx is done: the client itself may wait for as long as its read timeout.
func (s *Store) call(ctx context.Context, k kind, args ...any) ([]any, error) {
	if k == reading {
		cmd := redis.NewCmd(ctx, args...)
		return s.process(ctx, cmd, cmd)
	}
	var answer []any
	err := pause.Briefly(ctx, rediserr.TurnedAway, func() (err error) {
		cmd := redis.NewCmd(ctx, args...)
		answer, err = s.process(ctx, cmd, once{cmd})
		return err
	})
	return answer, err
}

func (s *Store) process(ctx context.Context, cmd *redis.Cmd, sent redis.Cmder) ([]any, error) {
	done := make(chan error, 1)
	go func() { done <- s.client.Process(ctx, sent) }()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return cmd.Slice()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// applied says what is known of a script that failed. Scripts write last, so one that Redis refused wrote nothing.
func applied(k kind, err error) bucket.Applied {
	var refused redis.Error
	var dial *net.OpError
	if k == reading || errors.As(err, &refused) || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.As(err, &dial) && dial.Op == "dial" {
		return bucket.AppliedNo
	}
	return bucket.AppliedMaybe
}

// explained adds what a person can do to an error of Redis.
func explained(err error) error {
	if redis.HasErrorPrefix(err, "OOM") {
		return fmt.Errorf("redis is at its maxmemory, so no bucket can be written and nothing limited starts: %w", err)
	}
	return err
}

// ofBucket is a fault of one bucket, before anything is written.
func ofBucket(name string, err error) error {
	return &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, BucketOnly: true, Err: err}
}
