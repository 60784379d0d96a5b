package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
)

// use is how a content is used: by its file, and by the batches that run. It is stored for as long as the content.
type use struct {
	Owner string `bson:"owner"`
	Bytes int64  `bson:"bytes"`
	// Until are the ends of the uses, by the IDs of the file and the batches.
	Until map[string]time.Time `bson:"until,omitempty"`
	// Changes counts the changes.
	Changes int64 `bson:"changes"`
}

// end is when the content expires.
func (u use) end() time.Time {
	last := gone
	for _, until := range u.Until {
		if later := until.Add(slack); later.After(last) {
			last = later
		}
	}
	return last.UTC()
}

// entry is what the content takes of its owner's account.
func (u use) entry() entry {
	if len(u.Until) == 0 {
		return entry{}
	}
	return entryOf(u.Bytes, u.end())
}

// useOf reads the use of a content that is stored, or may be.
func useOf(d documents.Document) (u use, err error) {
	if d.Version == "" {
		return u, nil
	}
	if err = bson.Unmarshal(d.Head, &u); err != nil {
		err = fmt.Errorf("%w: %.100q: %w", documents.ErrMalformed, d.Key, err)
	}
	return u, err
}

// used returns the use of a content. It is zero if there is none.
func (s *Store) used(ctx context.Context, id string) (use, error) {
	found, err := s.uses.Get(ctx, []string{id}, false)
	if err != nil {
		return use{}, err
	}
	return useOf(found[id])
}

// use changes the use of a content by a pure function, and lets the content expire with the last use. The account of
// the owner has reserved for a content without a use. It may be repeated after any crash. An error of the function is
// the result.
func (s *Store) use(ctx context.Context, id string, reserved entry, by func(*use) error) error {
	var u use
	var from entry
	err := documents.UpdateOne(ctx, s.uses, documents.Change{
		Key: id, Apply: func(d *documents.Document) (_ bool, err error) {
			if u, err = useOf(*d); err != nil {
				return false, err
			}
			if from = u.entry(); u.Changes == 0 {
				from = reserved
			}
			if err = by(&u); err != nil {
				return false, err
			}
			u.Changes++
			d.Expires = u.end()
			d.Head, err = bson.Marshal(u)
			return true, err
		},
	})
	if err == nil {
		err = s.account.move(ctx, u.Owner, from, u.entry())
	}
	for err == nil {
		seen := u.Changes
		if err = s.contents.Expire(ctx, id, u.end()); err == nil {
			u, err = s.used(ctx, id)
		}
		if u.Changes == seen || u.Changes == 0 {
			break // else another process may have set its end too early
		}
	}
	return err
}

// endUse ends a use. A content that nothing uses is deleted.
func (s *Store) endUse(ctx context.Context, id, by string) error {
	err := s.use(ctx, id, entry{}, func(u *use) error {
		if u.Changes == 0 {
			return ErrNoContent
		}
		delete(u.Until, by)
		return nil
	})
	if errors.Is(err, ErrNoContent) {
		return nil
	}
	return err
}
