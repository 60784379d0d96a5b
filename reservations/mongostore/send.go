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
	err := call(watched)
	sent := counter.Load()
	if sent > 0 {
		s.monitored.Store(true)
	}
	switch {
	case err == nil:
		return sent, nil
	case errors.Is(err, mongo.ErrNoDocuments) || isConflict(err):
		return sent, fmt.Errorf("%w: %w", errLost, err)
	}
	return sent, &reservations.UnavailableError{
		Bucket: bucket, Applied: s.applied(err, sent), BucketOnly: isOfOneDocument(err), Err: err,
	}
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
