package mongostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/mongoerr"
)

// errLost is matched when a write changed nothing, because another process was faster.
var errLost = errors.New("another process was faster")

// answersWithin is how recently a server that is not away has answered, when a call times out.
const answersWithin = time.Second

// send calls the server and says what is known of a failure. The error matches errLost, or is an UnavailableError. It
// returns how often the driver sent a command.
func (s *Store) send(ctx context.Context, name string, call func(context.Context) error) (int32, error) {
	if err := ctx.Err(); err != nil {
		return 0, &bucket.UnavailableError{
			Bucket: name, Applied: bucket.AppliedNo, BucketOnly: s.isSlowAlone(err), Err: err,
		}
	}
	watched, counter := withSent(ctx)
	err := call(watched)
	sent := counter.Load()
	if sent > 0 {
		s.monitored.Store(true)
	}
	switch {
	case err == nil:
		s.answered.Store(time.Now().UnixNano())
		return sent, nil
	case errors.Is(err, mongo.ErrNoDocuments) || mongoerr.Conflict(err):
		s.answered.Store(time.Now().UnixNano())
		return sent, fmt.Errorf("%w: %w", errLost, err)
	}
	return sent, &bucket.UnavailableError{
		Bucket: name, Applied: s.applied(err, sent), BucketOnly: isOfOneDocument(err) || s.isSlowAlone(err), Err: err,
	}
}

// isSlowAlone says whether a call timed out because of its document, e.g. one of many megabytes: the server has
// answered a call up to the end.
func (s *Store) isSlowAlone(err error) bool {
	return mongo.IsTimeout(err) && time.Since(time.Unix(0, s.answered.Load())) < answersWithin
}
