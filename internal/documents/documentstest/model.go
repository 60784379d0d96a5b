package documentstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/test/seeded"
)

// shortHistories is how many histories a short run has.
const shortHistories = 20

// model compares the store with a map, over random histories.
func model(t *testing.T, c documents.Collection) {
	t.Helper()
	var histories atomic.Int64
	seeded.Check(t, func(t *rapid.T) {
		n := histories.Add(1)
		if testing.Short() && n > shortHistories {
			return
		}
		m := &modelled{Collection: c, name: fmt.Sprintf("%04d", n), stored: map[string]documents.Document{}}
		t.Repeat(map[string]func(*rapid.T){
			"put": m.put, "delete": m.delete, "": m.compare, "by key": m.byKey, "by time": m.byTime,
		})
	})
}

// modelled is a collection, of which one history uses the keys and groups that begin with name.
type modelled struct {
	documents.Collection

	name    string
	stored  map[string]documents.Document
	version int
}

func (m *modelled) key(t *rapid.T) string {
	return m.name + "/" + rapid.SampledFrom([]string{"a", "b", "b/1", "c", "~"}).Draw(t, "key")
}

func (m *modelled) group(t *rapid.T) string {
	return m.name + rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group")
}

func moment(t *rapid.T, name string) time.Time {
	return time.UnixMilli(int64(rapid.IntRange(-2, 3).Draw(t, name))).UTC()
}

func (m *modelled) put(t *rapid.T) {
	d := documents.Document{Key: m.key(t), Head: head(rapid.Int().Draw(t, "n"))}
	now := m.stored[d.Key]
	old := rapid.SampledFrom([]string{now.Version, now.Version, "", version(m.version)}).Draw(t, "old")
	m.version++
	d.Version = version(m.version)
	if rapid.Bool().Draw(t, "indexed") {
		d.Group, d.At = m.group(t), moment(t, "at")
	}
	if rapid.Bool().Draw(t, "expires") {
		d.Expires = time.UnixMilli(4_000_000_000_000).UTC()
	}
	after := d
	switch rapid.SampledFrom([]string{"keep", "set", "delete"}).Draw(t, "body") {
	case "keep":
		d.Size, after.Size, after.Body = now.Size, now.Size, now.Body
	case "set":
		d.Body = head(m.version)
		d.Size = len(d.Body)
		after.Body, after.Size = d.Body, d.Size
	case "delete":
		d.Body = documents.Empty
	}
	err := m.Put(context.Background(), []documents.Write{{Document: d, Old: old}})[0]
	if (err == nil) != (old == now.Version) {
		t.Fatalf("%q has version %q, was written in place of %q: %v", d.Key, now.Version, old, err)
	}
	if err == nil {
		m.stored[d.Key] = after
	}
}

func (m *modelled) delete(t *rapid.T) {
	key := m.key(t)
	now := m.stored[key].Version
	of := rapid.SampledFrom([]string{now, version(m.version)}).Draw(t, "version")
	deleted, err := m.Delete(context.Background(), key, of)
	if want := now != "" && of == now; err != nil || deleted != want {
		t.Fatalf("%q has version %q, and was deleted with %q: %v, %v", key, now, of, deleted, err)
	}
	if deleted {
		delete(m.stored, key)
	}
}

func (m *modelled) compare(t *rapid.T) {
	keys := append(slices.Collect(maps.Keys(m.stored)), m.name+"/none")
	found, err := m.Get(context.Background(), keys, true)
	if diff := gocmp.Diff(m.stored, found); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
}

// heads returns the stored documents in a range, without bodies.
func (m *modelled) heads(in func(documents.Document) bool, order func(a, b documents.Document) int) []string {
	var all []documents.Document
	for _, d := range m.stored {
		if in(d) {
			all = append(all, d)
		}
	}
	slices.SortFunc(all, order)
	return keysOf(all)
}

func byKey(a, b documents.Document) int { return cmp.Compare(a.Key, b.Key) }

func (m *modelled) byKey(t *rapid.T) {
	r := documents.Keys{From: m.key(t), To: m.key(t), Limit: rapid.IntRange(1, 5).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "continued") {
		r.After = m.key(t)
	}
	want := m.heads(func(d documents.Document) bool {
		return d.Key >= r.From && d.Key < r.To && (r.After == "" || d.Key > r.After)
	}, byKey)
	found, err := m.ByKey(context.Background(), r)
	if got := keysOf(found); err != nil || !slices.Equal(got, want[:min(len(want), r.Limit)]) {
		t.Fatalf("%+v: %q, %v, want %q", r, got, err, want)
	}
}

func (m *modelled) byTime(t *rapid.T) {
	r := documents.Times{
		Group: m.group(t), Newest: rapid.Bool().Draw(t, "newest"), Limit: rapid.IntRange(1, 5).Draw(t, "limit"),
	}
	if rapid.Bool().Draw(t, "bounded") {
		r.Since, r.Until = moment(t, "since"), moment(t, "until")
	}
	order := func(a, b documents.Document) int { return cmp.Or(a.At.Compare(b.At), byKey(a, b)) }
	in := func(d documents.Document) bool {
		return d.Group == r.Group && (r.Since.IsZero() || !d.At.Before(r.Since)) &&
			(r.Until.IsZero() || d.At.Before(r.Until))
	}
	all := m.heads(in, order)
	if n, err := m.Count(context.Background(), r); n != len(all) || err != nil {
		t.Fatalf("%+v: %d, %v, want %d", r, n, err, len(all))
	}
	if r.Newest {
		forwards := order
		order = func(a, b documents.Document) int { return forwards(b, a) }
	}
	if rapid.Bool().Draw(t, "continued") {
		r.After = &documents.Document{Key: m.key(t), At: moment(t, "after")}
	}
	want := m.heads(func(d documents.Document) bool {
		return in(d) && (r.After == nil || order(*r.After, d) < 0)
	}, order)
	found, err := m.ByTime(context.Background(), r)
	if got := keysOf(found); err != nil || !slices.Equal(got, want[:min(len(want), r.Limit)]) {
		t.Fatalf("%+v: %q, %v, want %q", r, got, err, want)
	}
}
