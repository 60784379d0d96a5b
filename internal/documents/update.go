package documents

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/calls/pause"
)

const (
	// maxRounds bounds how often a change is computed. Each conflict means that another writer made progress.
	maxRounds = 50
	// longestPause bounds the pause before another round.
	longestPause = 20 * time.Millisecond
)

// Change is a change of one document.
type Change struct {
	Key string
	// New says that the document is likely not stored. Then Update tries to write it without reading it first.
	New bool
	// Apply changes a document without its body, and returns whether to write it. A document that is not stored has no
	// Version. Apply may be called several times, and must depend on nothing but the document. An error ends this change.
	Apply func(d *Document) (write bool, err error)
}

// Update applies changes, each of them atomically. It takes one round trip if all documents are new, and two if none
// meets another writer. The errors are in the order of the changes, and one that fails does not stop the others. They
// are errors of Apply and of Collection.Put.
func Update(ctx context.Context, c Collection, changes []Change) []error {
	u := update{collection: c, changes: changes, errs: make([]error, len(changes)), tried: make([]string, len(changes))}
	todo := make([]int, len(changes))
	for i := range todo {
		todo[i] = i
	}
	for round := 1; len(todo) > 0; round++ {
		todo = u.round(ctx, todo, round == 1)
		if len(todo) == 0 {
			break
		}
		wait := rand.N(min(longestPause, time.Millisecond<<min(round, 10))) //nolint:gosec // no secret
		if err := pause.For(ctx, wait); err != nil || round == maxRounds {
			for _, i := range todo {
				u.errs[i] = errors.Join(fmt.Errorf("%w: %w each time", ErrUnavailable, ErrConflict), err)
			}
			break
		}
	}
	return u.errs
}

// UpdateOne is Update for one change.
func UpdateOne(ctx context.Context, c Collection, change Change) error {
	return Update(ctx, c, []Change{change})[0]
}

type update struct {
	collection Collection
	changes    []Change
	errs       []error
	tried      []string // versions that this update wrote, maybe
}

// round applies some changes once, and returns the ones that met another writer.
func (u *update) round(ctx context.Context, todo []int, first bool) (again []int) {
	var keys []string
	for _, i := range todo {
		if !first || !u.changes[i].New {
			keys = append(keys, u.changes[i].Key)
		}
	}
	found := map[string]Document{}
	if len(keys) > 0 {
		var err error
		if found, err = u.collection.Get(ctx, keys, false); err != nil {
			for _, i := range todo {
				u.errs[i] = err
			}
			return nil
		}
	}
	var writes []Write
	var of []int
	for _, i := range todo {
		d, stored := found[u.changes[i].Key]
		if !stored {
			d = Document{Key: u.changes[i].Key}
		}
		switch {
		case stored && d.Version == "":
			u.errs[i] = fmt.Errorf("%w: document %.100q has no version", ErrMalformed, d.Key)
			continue
		case stored && d.Version == u.tried[i]:
			continue // an answer was lost, or the write was sent twice
		}
		old := d.Version
		write, err := u.changes[i].Apply(&d)
		if u.errs[i] = err; err != nil || !write {
			continue
		}
		if d.Version = newVersion(); d.Body != nil {
			d.Size = len(d.Body)
		}
		u.tried[i] = d.Version
		writes, of = append(writes, Write{Document: d, Old: old}), append(of, i)
	}
	if len(writes) == 0 {
		return nil
	}
	for n, err := range u.collection.Put(ctx, writes) {
		if errors.Is(err, ErrConflict) {
			again = append(again, of[n])
			continue
		}
		u.errs[of[n]] = err
	}
	return again
}
