// Package documentstest is the suite that every store of documents passes.
package documentstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
)

// Run runs the suite. Open returns a store that is empty.
func Run(t *testing.T, open func(t *testing.T) documents.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, documents.Collection){
		"swap": swap, "bodies": bodies, "expiry": expiry, "keys": keys, "times": times, "large": large, "many": many,
		"contended": contended, "reader": reader, "cancelled": cancelled, "collections": nil, "model": model,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if test == nil {
				collections(t, s)
				return
			}
			c := s.Collection("suite")
			for range 2 {
				if err := c.EnsureIndexes(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			test(t, c)
		})
	}
}

func head(n int) bson.Raw { return must(bson.Marshal(bson.M{"n": n})) }

func must(raw []byte, err error) bson.Raw {
	if err != nil {
		panic(err) // values of this package
	}
	return raw
}

func number(d documents.Document) int {
	n, _ := d.Head.Lookup("n").AsInt64OK()
	return int(n)
}

func version(n int) string { return fmt.Sprintf("%0*d", documents.VersionSize, n) }

func get(t *testing.T, c documents.Collection, key string) documents.Document {
	t.Helper()
	found, err := c.Get(t.Context(), []string{key, "another"}, true)
	if err != nil || len(found) > 1 {
		t.Fatalf("%d documents, %v", len(found), err)
	}
	return found[key]
}

func put(t *testing.T, c documents.Collection, old string, d documents.Document) {
	t.Helper()
	if d.Body != nil {
		d.Size = len(d.Body)
	}
	if err := c.Put(t.Context(), []documents.Write{{Document: d, Old: old}})[0]; err != nil {
		t.Fatalf("%q: %v", d.Key, err)
	}
}

func swap(t *testing.T, c documents.Collection) {
	t.Helper()
	d := documents.Document{
		Key: "a", Version: version(1), Group: "g", At: time.UnixMilli(-5).UTC(), Head: head(1), Body: head(2),
		Expires: time.UnixMilli(4_000_000_000_123).UTC(), Size: len(head(2)),
	}
	put(t, c, "", d)
	if diff := cmp.Diff(d, get(t, c, "a")); diff != "" {
		t.Error(diff)
	}
	for _, old := range []string{"", version(2)} {
		other := documents.Document{Key: "a", Version: version(9), Head: head(9), Body: documents.Empty}
		err := c.Put(t.Context(), []documents.Write{{Document: other, Old: old}})[0]
		if !errors.Is(err, documents.ErrConflict) {
			t.Errorf("old %q: %v", old, err)
		}
		other.Key = "not stored"
		if old == "" {
			continue
		}
		err = c.Put(t.Context(), []documents.Write{{Document: other, Old: old}})[0]
		if !errors.Is(err, documents.ErrConflict) || get(t, c, "not stored").Version != "" {
			t.Errorf("not stored: %v", err)
		}
	}
	if diff := cmp.Diff(d, get(t, c, "a")); diff != "" {
		t.Error(diff)
	}
	plain := documents.Document{Key: "a", Version: version(2), Head: head(3), Body: documents.Empty}
	put(t, c, version(1), plain)
	if got := get(t, c, "a"); number(got) != 3 || got.Group != "" || !got.At.IsZero() || !got.Expires.IsZero() ||
		got.Body != nil || got.Size != 0 {
		t.Errorf("%+v", got)
	}
	if n, err := c.Count(t.Context(), documents.Times{Group: "g"}); n != 0 || err != nil {
		t.Errorf("%d in the index, %v", n, err)
	}
	if deleted, err := c.Delete(t.Context(), "a", version(1)); deleted || err != nil {
		t.Errorf("an old version was deleted: %v, %v", deleted, err)
	}
	if deleted, err := c.Delete(t.Context(), "a", version(2)); !deleted || err != nil || get(t, c, "a").Version != "" {
		t.Errorf("%v, %v", deleted, err)
	}
}

func bodies(t *testing.T, c documents.Collection) {
	t.Helper()
	put(t, c, "", documents.Document{Key: "a", Version: version(1), Head: head(1), Body: head(7)})
	found, err := c.Get(t.Context(), []string{"a"}, false)
	if d := found["a"]; err != nil || d.Body != nil || d.Size != len(head(7)) {
		t.Errorf("%+v, %v", d, err)
	}
	put(t, c, version(1), documents.Document{Key: "a", Version: version(2), Head: head(2), Size: len(head(7))})
	if d := get(t, c, "a"); number(documents.Document{Head: d.Body}) != 7 || number(d) != 2 {
		t.Errorf("the body was not kept: %+v", d)
	}
	if found, err = c.Get(t.Context(), nil, true); len(found) != 0 || err != nil {
		t.Errorf("%v, %v", found, err)
	}
}

func expiry(t *testing.T, c documents.Collection) {
	t.Helper()
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	put(t, c, "", documents.Document{Key: "later", Version: version(1), Head: head(1), Expires: later})
	put(t, c, "", documents.Document{Key: "never", Version: version(1), Head: head(1)})
	for n := range 40 {
		put(t, c, "", documents.Document{Key: strconv.Itoa(n), Version: version(1), Head: head(1)})
	}
	for key, want := range map[string]time.Time{"later": later, "never": {}} {
		if d := get(t, c, key); d.Version == "" || !d.Expires.Equal(want) {
			t.Errorf("%s: %+v", key, d)
		}
	}
}

func keysOf(all []documents.Document) (keys []string) {
	for _, d := range all {
		keys = append(keys, d.Key)
	}
	return keys
}

func keys(t *testing.T, c documents.Collection) {
	t.Helper()
	all := []string{"B", "a", "a!", "a/1", "a/10", "a/2", "b", "b%C3", "z"}
	for _, i := range []int{4, 8, 0, 2, 6, 1, 7, 3, 5} {
		put(t, c, "", documents.Document{Key: all[i], Version: version(i), Head: head(i), Body: head(i)})
	}
	for _, r := range []struct {
		keys documents.Keys
		want []string
	}{
		{documents.Keys{To: "~", Limit: 100}, all},
		{documents.Keys{To: "~", Limit: 3}, all[:3]},
		{documents.Keys{From: "a", To: "a/2", Limit: 100}, all[1:5]},
		{documents.Keys{From: "a", To: "b", After: "a!", Limit: 2}, all[3:5]},
		{documents.Keys{From: "b", To: "z", After: "a", Limit: 9}, all[6:8]},
		{limited(documents.Prefix("a/")), all[3:6]},
		{documents.Keys{From: "c", To: "d", Limit: 9}, nil},
		{documents.Keys{From: "d", To: "c", Limit: 9}, nil},
	} {
		found, err := c.ByKey(t.Context(), r.keys)
		if diff := cmp.Diff(r.want, keysOf(found)); err != nil || diff != "" {
			t.Errorf("%+v: %v %s", r.keys, err, diff)
		}
		for _, d := range found {
			if d.Body != nil || d.Size == 0 || all[number(d)] != d.Key {
				t.Errorf("%+v", d)
			}
		}
	}
}

func limited(k documents.Keys) documents.Keys {
	k.Limit = 100
	return k
}

func times(t *testing.T, c documents.Collection) {
	t.Helper()
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)).UTC() }
	for _, d := range []struct {
		key, group string
		ms         int
	}{{"b", "g", 5}, {"a", "g", 5}, {"c", "g", -3}, {"d", "g", 9}, {"x", "h", 5}, {"e", "g", 1_700_000_000_000}} {
		put(t, c, "", documents.Document{
			Key: d.key, Version: version(1), Group: d.group, At: at(d.ms), Head: head(1),
		})
	}
	all := func(r documents.Times, limit int) (found []string) {
		r.Limit = limit
		for {
			page, err := c.ByTime(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if found = append(found, keysOf(page)...); len(page) < limit {
				return found
			}
			r.After = &page[len(page)-1]
		}
	}
	for _, r := range []struct {
		times documents.Times
		want  string
	}{
		{documents.Times{Group: "g"}, "[c a b d e]"},
		{documents.Times{Group: "h"}, "[x]"},
		{documents.Times{Group: "gh"}, "[]"},
		{documents.Times{Group: "g", Since: at(5)}, "[a b d e]"},
		{documents.Times{Group: "g", Since: at(5).Add(1)}, "[d e]"},
		{documents.Times{Group: "g", Until: at(5)}, "[c]"},
		{documents.Times{Group: "g", Until: at(5).Add(1)}, "[c a b]"},
		{documents.Times{Group: "g", Since: at(-2), Until: at(9)}, "[a b]"},
	} {
		for limit := 1; limit < 7; limit++ {
			for _, newest := range []bool{false, true} {
				r.times.Newest = newest
				got := all(r.times, limit)
				if newest {
					slices.Reverse(got)
				}
				if fmt.Sprint(got) != r.want {
					t.Errorf("%+v by %d: %v, want %v", r.times, limit, got, r.want)
				}
			}
		}
		want := all(r.times, 100)
		if n, err := c.Count(t.Context(), r.times); n != len(want) || err != nil {
			t.Errorf("%+v: %d, %v", r.times, n, err)
		}
	}
	put(t, c, version(1), documents.Document{Key: "a", Version: version(2), Group: "h", At: at(1), Head: head(1)})
	if got := fmt.Sprint(all(documents.Times{Group: "h"}, 2), all(documents.Times{Group: "g"}, 2)); got !=
		"[a x] [c b d e]" {
		t.Errorf("after a move: %s", got)
	}
}

func large(t *testing.T, c documents.Collection) {
	t.Helper()
	body := func(size int) bson.Raw { return must(bson.Marshal(bson.M{"b": make([]byte, size)})) }
	writes := make([]documents.Write, 3)
	for i, size := range []int{documents.Largest + 1, documents.Largest - 1000, 10} {
		d := documents.Document{Key: strconv.Itoa(i), Version: version(1), Head: head(i), Body: body(size)}
		d.Size = len(d.Body)
		writes[i] = documents.Write{Document: d}
	}
	errs := c.Put(t.Context(), writes)
	if !errors.Is(errs[0], documents.ErrTooLarge) || errors.Is(errs[0], documents.ErrUnavailable) || errs[1] != nil ||
		errs[2] != nil {
		t.Fatal(errs)
	}
	if d := get(t, c, "1"); !bytes.Equal(d.Body, writes[1].Body) {
		t.Errorf("another body, of %d bytes", len(d.Body))
	}
}

// many writes more documents than fit into one command, some of them twice.
func many(t *testing.T, c documents.Collection) {
	t.Helper()
	const n = 1200
	changes := make([]documents.Change, 0, 2*n)
	for i := range 2 * n {
		changes = append(changes, documents.Change{
			Key: fmt.Sprintf("%05d", i%n), New: i < n, Apply: func(d *documents.Document) (bool, error) {
				d.Head, d.Group, d.At = head(number(*d)+1), "g", time.UnixMilli(int64(i%7))
				return true, nil
			},
		})
	}
	if err := errors.Join(documents.Update(t.Context(), c, changes)...); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Count(t.Context(), documents.Times{Group: "g"}); got != n || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	seen := 0
	for d, err := range (documents.Reader{Collection: c, Page: documents.InKeys(c, documents.Keys{To: "~"})}).All(
		t.Context()) {
		if err != nil || number(d) != 2 || d.Key != fmt.Sprintf("%05d", seen) {
			t.Fatalf("%+v, %v", d, err)
		}
		seen++
	}
	if seen != n {
		t.Errorf("%d documents", seen)
	}
}

// contended has many goroutines count in few documents: no count is lost, and an error of one ends no other.
func contended(t *testing.T, c documents.Collection) {
	t.Helper()
	const goroutines, rounds, documentsMany = 12, 8, 3
	refused := errors.New("refused")
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for r := range rounds {
				var changes []documents.Change
				for n := range documentsMany {
					changes = append(changes, documents.Change{
						Key: strconv.Itoa(n), New: g%2 == 0, Apply: func(d *documents.Document) (bool, error) {
							d.Head = head(number(*d) + 1)
							return true, nil
						},
					})
				}
				changes = append(changes,
					documents.Change{Key: "x", Apply: func(*documents.Document) (bool, error) { return true, refused }},
					documents.Change{Key: "y", Apply: func(*documents.Document) (bool, error) { return false, nil }})
				for i, err := range documents.Update(t.Context(), c, changes) {
					if i == documentsMany && !errors.Is(err, refused) || i != documentsMany && err != nil {
						t.Errorf("goroutine %d, round %d, change %d: %v", g, r, i, err)
					}
				}
			}
		})
	}
	group.Wait()
	for n := range documentsMany {
		if got := number(get(t, c, strconv.Itoa(n))); got != goroutines*rounds {
			t.Errorf("document %d counts %d, want %d", n, got, goroutines*rounds)
		}
	}
	for _, key := range []string{"x", "y"} {
		if get(t, c, key).Version != "" {
			t.Errorf("%s was written", key)
		}
	}
}

// reader reads bodies in several steps, and passes over what is not wanted.
func reader(t *testing.T, c documents.Collection) {
	t.Helper()
	const n = 450
	var changes []documents.Change
	for i := range n {
		changes = append(changes, documents.Change{
			Key: fmt.Sprintf("%03d", i), New: true, Apply: func(d *documents.Document) (bool, error) {
				d.Head, d.Body = head(i), must(bson.Marshal(bson.M{"n": i, "b": make([]byte, 40_000)}))
				return true, nil
			},
		})
	}
	if err := errors.Join(documents.Update(t.Context(), c, changes)...); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []bool{false, true} {
		next := 0
		for d, err := range (documents.Reader{
			Collection: c, Page: documents.InKeys(c, documents.Keys{To: "~"}), Bodies: whole,
			Wanted: func(d documents.Document) bool { return number(d)%3 == 0 },
		}).All(t.Context()) {
			if err != nil || number(d) != next || (len(d.Body) > 40_000) != whole {
				t.Fatalf("%d instead of %d, a body of %d bytes, %v", number(d), next, len(d.Body), err)
			}
			next += 3
		}
		if next != n {
			t.Errorf("ended before %d", next)
		}
	}
}

func cancelled(t *testing.T, c documents.Collection) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, got := c.Get(ctx, []string{"a"}, true)
	_, byKey := c.ByKey(ctx, documents.Keys{To: "~", Limit: 1})
	_, byTime := c.ByTime(ctx, documents.Times{Group: "g", Limit: 1})
	_, counted := c.Count(ctx, documents.Times{Group: "g"})
	_, deleted := c.Delete(ctx, "a", version(1))
	written := c.Put(ctx, []documents.Write{{Document: documents.Document{
		Key: "a", Version: version(1), Head: head(1),
	}}})[0]
	for name, err := range map[string]error{
		"get": got, "by key": byKey, "by time": byTime, "count": counted, "delete": deleted, "put": written,
	} {
		if !errors.Is(err, documents.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// collections has documents with the same key in two collections.
func collections(t *testing.T, s documents.Store) {
	t.Helper()
	put(t, s.Collection("one"), "", documents.Document{Key: "a", Version: version(1), Head: head(1)})
	put(t, s.Collection("two"), "", documents.Document{Key: "a", Version: version(1), Head: head(2)})
	if one, two := get(t, s.Collection("one"), "a"), get(t, s.Collection("two"), "a"); number(one) != 1 ||
		number(two) != 2 {
		t.Errorf("%+v, %+v", one, two)
	}
}
