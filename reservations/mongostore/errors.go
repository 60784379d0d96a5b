package mongostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/mongoerr"
)

// This file and package mongoerr are the only ones that know what the driver's and the servers' errors mean.

// isOfOneDocument says whether a call failed, and changed nothing, because of its document or key: other buckets can be
// asked.
func isOfOneDocument(err error) bool {
	var we mongo.WriteException
	var ce mongo.CommandError
	switch {
	case mongoerr.TooLarge(err):
		return true
	case errors.As(err, &we):
		return len(we.WriteErrors) > 0
	case errors.As(err, &ce):
		return slices.Contains([]int32{2, 14, 28, 17280}, ce.Code) // BadValue, TypeMismatch, PathNotViable, KeyTooLong
	}
	return false
}

// isRefusal says whether a server turned the command away before it did anything.
func isRefusal(err error) bool {
	var ce mongo.CommandError
	return isOfOneDocument(err) || mongoerr.Undone(err) || errors.As(err, &ce) && slices.Contains([]int32{
		9, 59, 73, // FailedToParse, CommandNotFound, InvalidNamespace
		13, 18, // Unauthorized, AuthenticationFailed
		10107, 13435, // NotWritablePrimary, NotPrimaryNoSecondaryOk
	}, ce.Code)
}

// applied says what is known of a call that failed; sent is how often the monitor saw it leave.
func (s *Store) applied(err error, sent int32) bucket.Applied {
	var unselected topology.ServerSelectionError
	var unpooled topology.WaitQueueTimeoutError
	switch {
	case sent == 0 && s.monitored.Load(),
		sent == 1 && isRefusal(err),                            // sent more often, an earlier one may have been taken
		errors.As(err, &unselected), errors.As(err, &unpooled): // the driver returns them only where it sent nothing
		return bucket.AppliedNo
	}
	return bucket.AppliedMaybe
}

type sentKey struct{}

// withSent returns a context through which the monitor counts the commands that leave.
func withSent(ctx context.Context) (context.Context, *atomic.Int32) {
	sent := new(atomic.Int32)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// monitor counts the commands that leave. The driver repeats some calls itself, and then returns an error of any of the
// attempts. So the error alone does not say whether another attempt arrived.
func monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(ctx context.Context, _ *event.CommandStartedEvent) {
		if sent, ok := ctx.Value(sentKey{}).(*atomic.Int32); ok {
			sent.Add(1)
		}
	}}
}

// errLost is matched when a write changed nothing, because another process was faster.
var errLost = errors.New("another process was faster")

// answersWithin is how recently a server that is not away has answered, when a call times out.
const answersWithin = time.Second

// send calls the server, again where the server rolled the call back, and says what is known of a failure. The error
// matches errLost, or is an UnavailableError.
func (s *Store) send(ctx context.Context, name string, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return &bucket.UnavailableError{
			Bucket: name, Applied: bucket.AppliedNo, BucketOnly: s.isSlowAlone(err), Err: err,
		}
	}
	var sent int32
	undone := func(err error) bool { return sent == 1 && mongoerr.Undone(err) }
	err := pause.Briefly(ctx, undone, func() error {
		watched, counter := withSent(ctx)
		err := call(watched)
		if sent = counter.Load(); sent > 0 {
			s.monitored.Store(true)
		}
		return err
	})
	lost := errors.Is(err, mongo.ErrNoDocuments) || mongoerr.Conflict(err)
	if err == nil || lost {
		s.answered.Store(time.Now().UnixNano())
	}
	switch {
	case err == nil:
		return nil
	case lost && sent > 1: // the driver repeated the write, and the first one may have been the faster
		return &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedMaybe, BucketOnly: true, Err: err}
	case lost:
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return &bucket.UnavailableError{
		Bucket: name, Applied: s.applied(err, sent), BucketOnly: isOfOneDocument(err) || s.isSlowAlone(err), Err: err,
	}
}

// isSlowAlone says whether a call timed out because of its document, e.g. one of many megabytes: the server has
// answered a call up to the end.
func (s *Store) isSlowAlone(err error) bool {
	return mongo.IsTimeout(err) && time.Since(time.Unix(0, s.answered.Load())) < answersWithin
}
