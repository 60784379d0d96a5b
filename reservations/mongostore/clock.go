package mongostore

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/headway-go/headway/reservations"
)

var _ reservations.Clock = (*Store)(nil)

// Now implements reservations.Clock: the clock of the server, to the millisecond.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if at, ok := s.now().(bson.DateTime); ok {
		return at.Time().UTC(), nil
	}
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	primary := options.RunCmd().SetReadPreference(readpref.Primary())
	err := s.buckets.Database().RunCommand(ctx, bson.D{to("hello", 1)}, primary).Decode(&hello)
	if err != nil {
		return time.Time{}, &reservations.UnavailableError{Bucket: "(clock)", Applied: reservations.AppliedNo, Err: err}
	}
	return hello.LocalTime.UTC(), nil
}
