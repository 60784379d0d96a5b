package mongostore

import "time"

// WithPatience sets how long a call competes.
func (s *Store) WithPatience(d time.Duration) *Store {
	s.patience = d
	return s
}
