package mongostore

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ClientOptions are the settings of Connect before any change.
func ClientOptions(uri string) (*options.ClientOptions, error) { return clientOptions(uri) }

// WithClock replaces the server's clock; nil leaves it.
func (s *Store) WithClock(now func() time.Time) *Store {
	s.now = now
	return s
}

// WithPatience sets how long a call competes.
func (s *Store) WithPatience(d time.Duration) *Store {
	s.patience = d
	return s
}
