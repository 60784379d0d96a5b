package memstore

import (
	"context"
	"time"

	"github.com/headway-go/headway/reservations"
)

var _ reservations.Clock = (*Store)(nil)

// Now implements reservations.Clock. It never fails.
func (s *Store) Now(context.Context) (time.Time, error) { return s.now(), nil }
