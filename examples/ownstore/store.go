// Package ownstore is a store of buckets that is written with public names alone, as for a database that Headway does
// not know. This one compares and swaps the records of a map, as most databases do.
package ownstore

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Store is a reservations.Store.
type Store struct {
	// Now is the clock of the database, the same for all processes.
	Now func() time.Time

	mu      sync.Mutex // guards records
	records map[string][]byte
}

var _ reservations.Store = (*Store)(nil)

// errContended means that other writers won each time. Nothing has started then.
var errContended = errors.New("ownstore: too many conflicts")

// Update reads a record, and writes what follows it if the record is still the same.
func (s *Store) Update(ctx context.Context, limit, key string, change reservations.Change) error {
	name := limit + ":" + key // a limit holds no colon
	for range 1000 {
		if err := ctx.Err(); err != nil {
			return err
		}
		record := s.get(name)
		next, _, err := change.Apply(record, s.Now()) // a database forgets the record some time after keep
		if err != nil || bytes.Equal(next, record) || s.swap(name, record, next) {
			return err
		}
	}
	return errContended
}

// Reset deletes a record.
func (s *Store) Reset(ctx context.Context, limit, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, limit+":"+key)
	return ctx.Err()
}

func (s *Store) get(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[name]
}

// swap writes next where the record is still the old one, and says whether it did.
func (s *Store) swap(name string, old, next []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(s.records[name], old) {
		return false
	}
	if s.records == nil {
		s.records = map[string][]byte{}
	}
	s.records[name] = next
	return true
}
