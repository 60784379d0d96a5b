package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/owned"
)

// ErrFull means that the contents of an owner would take more than the bound.
var ErrFull = errors.New("the files of the owner take all their room")

// bytesLeast is what each content counts at least: its records take about so much.
const bytesLeast = 4 << 10

// account counts the bytes of each owner's contents. It counts them by the day on which they go away, so that it
// forgets expired contents without reading any of them. A crash between a content and its account counts it until that
// day.
type account struct {
	in   documents.Collection
	most int64 // for an owner
	now  func() time.Time
}

// entry is what a content takes of an account. The zero entry takes nothing.
type entry struct {
	day   string
	bytes int64
}

func entryOf(bytes int64, until time.Time) entry {
	return entry{day: until.UTC().Format(time.DateOnly), bytes: max(bytes, bytesLeast)}
}

// move replaces an entry by another one. The error matches ErrFull if that is larger, and there is no room for it.
func (a account) move(ctx context.Context, owner string, from, to entry) error {
	if from == to {
		return nil
	}
	return documents.UpdateOne(ctx, a.in, documents.Change{Key: owned.Group(owner), Apply: func(d *documents.Document) (
		_ bool, err error,
	) {
		var head struct {
			Days map[string]int64 `bson:"days"`
		}
		if d.Version != "" {
			if err = bson.Unmarshal(d.Head, &head); err != nil {
				return false, fmt.Errorf("%w: the account of %.100q: %w", documents.ErrMalformed, owner, err)
			}
		}
		if head.Days == nil {
			head.Days = map[string]int64{}
		}
		head.Days[from.day] -= from.bytes
		head.Days[to.day] += to.bytes
		now := a.now().UTC()
		maps.DeleteFunc(head.Days, func(day string, bytes int64) bool {
			return day < now.Format(time.DateOnly) || bytes <= 0
		})
		total := int64(0)
		for _, bytes := range head.Days {
			total += bytes
		}
		if to.bytes > from.bytes && total > a.most {
			return false, fmt.Errorf("%w: %d bytes, at most %d", ErrFull, total, a.most)
		}
		d.Expires = now.Add(2 * Retention)
		d.Head, err = bson.Marshal(head)
		return true, err
	}})
}
