package keys

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// Book is the keys of a store, as they were read last. Safe for concurrent use.
type Book struct {
	store Store
	open  bool
	all   atomic.Pointer[map[string]Key] // by hash; never changed

	looks  singleflight.Group
	looked time.Time // when the keys were read for an unknown secret; one of looks has it
}

const (
	// lookEvery is how often unknown secrets have the keys read again, so that guesses cost the store little.
	lookEvery = 200 * time.Millisecond
	// lookFor bounds how long a caller with an unknown secret waits for that.
	lookFor = time.Second
)

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

// Find returns what the caller with a secret may do. Ok is false for a secret that is not known, or has expired. A key
// that was made since the keys were read is looked for in the store.
func (b *Book) Find(ctx context.Context, secret string) (key Key, ok bool) {
	if b.open && b.Empty() {
		return Key{}, true
	}
	hash := Hash(secret)
	if key, ok = (*b.all.Load())[hash]; !ok && strings.HasPrefix(secret, Prefix) {
		b.look(ctx)
		key, ok = (*b.all.Load())[hash]
	}
	return key, ok && key.Live(time.Now())
}

// look reads the keys again, unless that was done a moment ago.
func (b *Book) look(ctx context.Context) {
	_, _, _ = b.looks.Do("", func() (any, error) {
		if time.Since(b.looked) < lookEvery {
			return nil, nil //nolint:nilnil // only the wait counts
		}
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookFor) // for all callers that wait
		defer cancel()
		_ = b.Refresh(reading) // the next regular reading reports the fault
		b.looked = time.Now()
		return nil, nil //nolint:nilnil // as above
	})
}
