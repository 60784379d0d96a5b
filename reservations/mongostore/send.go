package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/reservations"
)

// errLost is matched when a write changed nothing, because another process was faster.
var errLost = errors.New("another process was faster")

// send calls the server and says what is known of a failure. The error matches errLost, or is an UnavailableError. It
// returns how often the driver sent a command.
func (s *Store) send(ctx context.Context, bucket string, call func(context.Context) error) (int32, error) {
	if err := ctx.Err(); err != nil {
		return 0, &reservations.UnavailableError{Bucket: bucket, Applied: reservations.AppliedNo, Err: err}
	}
	watched, counter := withSent(ctx)
	began := time.Now()
	err := call(watched)
	sent := counter.Load()
	if sent > 0 {
		s.monitored.Store(true)
	}
	switch {
	case err == nil:
		s.answered.Store(time.Now().UnixNano())
		return sent, nil
	case errors.Is(err, mongo.ErrNoDocuments) || isConflict(err):
		s.answered.Store(time.Now().UnixNano())
		return sent, fmt.Errorf("%w: %w", errLost, err)
	}
	silent := time.Since(time.Unix(0, s.answered.Load()))
	alone := isOfOneDocument(err) || sent > 0 && mongo.IsTimeout(err) && isSlowAlone(time.Since(began), silent)
	return sent, &reservations.UnavailableError{
		Bucket: bucket, Applied: s.applied(err, sent), BucketOnly: alone, Err: err,
	}
}

// isSlowAlone says whether a call that took so long without an answer failed because of its document, e.g. one of many
// megabytes: the server has answered other calls up to the end. Silent is the time since the last of these answers.
func isSlowAlone(took, silent time.Duration) bool {
	const most = 500 * time.Millisecond
	return silent < min(most, took/4)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
