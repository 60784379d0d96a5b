package files_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/mongodocs"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/documents/redisdocs"
	"github.com/headway-go/headway/internal/products/files"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// most is the largest content of the tests, in bytes.
const most = 5*files.ChunkSize + 7

// stored is how much all contents of an owner take at most, in bytes.
const stored = 4 * most

// place is a store with its contents in one of the places that there are.
type place struct {
	*files.Store

	contents files.Contents
	docs     documents.Store
	folder   string // empty for contents in docs
	now      time.Time
}

// everywhere runs a test with contents in a folder, in Redis and in MongoDB.
func everywhere(t *testing.T, test func(*testing.T, *place)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T) *place{
		"folder": inFolder, "Redis": inRedis, "MongoDB": inMongo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func (p *place) clock() time.Time { return p.now }

// open opens the store.
func (p *place) open(t *testing.T) *place {
	t.Helper()
	p.now = time.Now().Truncate(time.Millisecond)
	if p.contents = files.InDocuments(p.docs, p.clock); p.folder != "" {
		var err error
		if p.contents, err = files.InFolder(p.folder, p.clock); err != nil {
			t.Fatal(err)
		}
	}
	p.Store = files.New(p.docs, p.contents, files.Bounds{File: most, Owner: stored}, p.clock)
	t.Cleanup(func() { _ = p.Close() })
	for range 2 {
		if err := p.EnsureIndexes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := p.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func inRedis(t *testing.T) *place {
	t.Helper()
	return (&place{docs: redisdocs.New(memredis.Start(t))}).open(t)
}

func inMongo(t *testing.T) *place {
	t.Helper()
	return (&place{docs: mongodocs.New(testenv.Database(t))}).open(t)
}

func inFolder(t *testing.T) *place {
	t.Helper()
	return (&place{
		docs: redisdocs.New(memredis.Start(t)), folder: filepath.Join(t.TempDir(), "files"),
	}).open(t)
}

// stored returns how many bytes are stored, or a little more, of what has not expired at a moment.
func (p *place) stored(t *testing.T, at time.Time) (size int64) {
	t.Helper()
	if p.folder == "" {
		in := p.docs.Collection("gateway_chunks")
		for d, err := range (documents.Reader{
			Collection: in, Page: documents.InKeys(in, documents.Keys{To: "~"}),
		}).All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Expires.IsZero() || d.Expires.After(at) {
				size += files.ChunkSize
			}
		}
		return size
	}
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && at.Sub(info.ModTime()) <= 2*time.Hour { // as for Sweep
			size += info.Size()
		}
	}
	return size
}

// cut removes the end of a content.
func (p *place) cut(t *testing.T, id string) {
	t.Helper()
	if p.folder != "" {
		if err := os.Truncate(filepath.Join(p.folder, id), files.ChunkSize); err != nil {
			t.Fatal(err)
		}
		return
	}
	in := p.docs.Collection("gateway_chunks")
	keys := documents.Prefix(id)
	keys.Limit = 100
	found, err := in.ByKey(t.Context(), keys)
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	last := found[len(found)-1]
	if deleted, err := in.Delete(t.Context(), last.Key, last.Version); !deleted || err != nil {
		t.Fatal(deleted, err)
	}
}

// keep stores a file of an owner "a". A zero life is the longest one.
func (p *place) keep(t *testing.T, text []byte, life time.Duration) owned.Record[files.File] {
	t.Helper()
	u, err := p.Write(t.Context(), "a", bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	expires := p.now.Add(life)
	if life == 0 {
		expires = time.Time{}
	}
	f, err := u.Keep(t.Context(), files.File{Name: "in.jsonl", Purpose: files.PurposeBatch}, expires)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// text reads a content whole.
func (p *place) text(t *testing.T, id string) ([]byte, error) {
	t.Helper()
	content, err := p.Read(t.Context(), id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }()
	return io.ReadAll(content)
}

// is fails unless a content is a text.
func (p *place) is(t *testing.T, id string, want []byte) {
	t.Helper()
	if got, err := p.text(t, id); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
}
