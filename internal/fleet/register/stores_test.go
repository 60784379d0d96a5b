package register_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/reservations"
)

// The first process decides which store the fleet uses.
func TestAgree(t *testing.T) {
	t.Parallel()
	a := reservations.Identity{ID: "1", Place: "MongoDB, database a at h:27017"}
	renamed := reservations.Identity{ID: "1", Place: "MongoDB, database a at 127.0.0.1:27017"}
	emptied := reservations.Identity{ID: "2", Place: a.Place}
	b := reservations.Identity{ID: "3", Place: "MongoDB, database b at h:27017"}
	inRedis := reservations.Identity{ID: "redis", Place: "Redis"}
	for name, c := range map[string]struct {
		first, second reservations.Identity
		says          []string // empty: they agree
	}{
		"the same":                 {a, a, nil},
		"the same by another name": {a, renamed, nil},
		"without an identity":      {a, reservations.Identity{}, nil},
		"both in Redis":            {inRedis, inRedis, nil},
		"another database":         {a, b, []string{"database a at h", "database b at h", "(ID 1)", "(ID 3)", "MONGODB_URI"}},
		"Redis instead":            {a, inRedis, []string{"database a at h", "this one would in Redis", "`buckets`"}},
		"MongoDB instead":          {inRedis, a, []string{"in Redis (ID redis)", "database a at h"}},
		"an emptied database":      {a, emptied, []string{"the same name", "delete the key headway:{fleet}:stores"}},
	} {
		_, r := open(t)
		for _, first := range []reservations.Identity{c.first, c.first} {
			if err := r.Agree(t.Context(), register.RoleBuckets, first); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		err := r.Agree(t.Context(), register.RoleBuckets, c.second)
		if errors.Is(err, register.ErrSplit) != (len(c.says) > 0) || (err != nil) != (len(c.says) > 0) {
			t.Errorf("%s: %v", name, err)
		}
		for _, said := range c.says {
			if !strings.Contains(err.Error(), said) {
				t.Errorf("%s: %v does not say %q", name, err, said)
			}
		}
		if err = r.Agree(t.Context(), register.RoleRecords, b); err != nil {
			t.Errorf("%s: another role: %v", name, err)
		}
	}
}

// Of many processes that start together, the stores of all but one kind are refused.
func TestAgreeAtOnce(t *testing.T) {
	t.Parallel()
	_, r := open(t)
	var group sync.WaitGroup
	agreed := make([]bool, 40)
	for i := range agreed {
		group.Go(func() {
			id := string(rune('a' + i%2))
			agreed[i] = r.Agree(t.Context(), register.RoleBuckets, reservations.Identity{ID: id}) == nil
		})
	}
	group.Wait()
	for i := range agreed {
		if agreed[i] != agreed[i%2] {
			t.Fatalf("%v", agreed)
		}
	}
	if n := len(slices.DeleteFunc(agreed, func(ok bool) bool { return !ok })); n != 20 {
		t.Errorf("%d agree", n)
	}
}

// An entry that no process wrote is an error that names the key, not another store.
func TestAgreeMalformed(t *testing.T) {
	t.Parallel()
	client, r := open(t)
	if err := client.HSet(t.Context(), register.KeyStores, "buckets", "oops").Err(); err != nil {
		t.Fatal(err)
	}
	err := r.Agree(t.Context(), register.RoleBuckets, reservations.Identity{ID: "1"})
	if !errors.Is(err, reservations.ErrUnavailable) || errors.Is(err, register.ErrSplit) ||
		!strings.Contains(err.Error(), register.KeyStores) {
		t.Errorf("%v", err)
	}
}
