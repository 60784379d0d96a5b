package keys

import (
	"context"
	"sync/atomic"
	"time"
)

// Book is the keys of a store, as they were read last. Safe for concurrent use.
type Book struct {
	store Store
	open  bool
	all   atomic.Pointer[map[string]Key] // by hash; never changed
}

// Open reads the keys. With unguarded, a book without any key knows every caller, as one that may do everything.
func Open(ctx context.Context, s Store, unguarded bool) (*Book, error) {
	b := &Book{store: s, open: unguarded}
	all, err := s.All(ctx)
	if err != nil {
		return nil, err
	}
	b.all.Store(&all)
	return b, nil
}

// Refresh reads the keys again. If they can't be read, the last ones stay.
func (b *Book) Refresh(ctx context.Context) error {
	all, err := b.store.All(ctx)
	if all != nil {
		b.all.Store(&all)
	}
	return err
}

// Empty says whether there is no key, also none that has expired.
func (b *Book) Empty() bool { return len(*b.all.Load()) == 0 }

// Find returns what the caller with a secret may do. Ok is false for a secret that is not known, or has expired.
func (b *Book) Find(secret string) (key Key, ok bool) {
	if b.open && b.Empty() {
		return Key{}, true
	}
	key, ok = (*b.all.Load())[Hash(secret)]
	return key, ok && key.Live(time.Now())
}
