package owned_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/test/memredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type value struct{ N int }

// A record is written once, changed by its owner alone, and gone once it has expired.
func TestRecords(t *testing.T) {
	t.Parallel()
	client := memredis.Start(t)
	now := time.Now()
	s := owned.New[value](redisdocs.New(client).Collection("records"), func() time.Time { return now })
	r := owned.Record[value]{ID: owned.NewID("x-"), Owner: "a", Expires: now.Add(time.Hour), Value: value{1}}
	_, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Create(t.Context(), r); !errors.Is(err, owned.ErrExists) {
		t.Error(err)
	}
	add := func(r *owned.Record[value]) bool {
		r.Value.N++
		return true
	}
	if _, err = s.Change(t.Context(), "b", r.ID, add); !errors.Is(err, owned.ErrUnknown) {
		t.Error(err)
	}
	if changed, failed := s.Change(t.Context(), "a", r.ID, add); failed != nil || changed.Value.N != 2 {
		t.Error(changed, failed)
	}
	if got, failed := s.Get(t.Context(), "a", r.ID); failed != nil || got.Value.N != 2 || got.Owner != "a" {
		t.Error(got, failed)
	}
	now = now.Add(time.Hour)
	if _, err = s.Get(t.Context(), "a", r.ID); !errors.Is(err, owned.ErrUnknown) {
		t.Error(err)
	}
	if found, more, err := s.List(t.Context(), "a", owned.Page{Limit: 5}); err != nil || more || len(found) > 0 {
		t.Error(found, more, err)
	}
}
