package files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/products/files"
)

// random returns bytes that can't be compressed.
func random(size int) []byte {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	return text
}

// The life of a file: stored, read, pinned for a batch, deleted, unpinned.
func TestFile(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		for _, size := range []int{0, 5, files.ChunkSize - 1, files.ChunkSize, files.ChunkSize + 1, most} {
			text := random(size)
			f := p.keep(t, text, 0)
			got, err := p.Get(t.Context(), "a", f.ID)
			if err != nil || got.Value.Bytes != int64(size) {
				t.Errorf("%+v, %v", got, err)
			}
			p.is(t, f.ID, text)
			batch := owned.NewID("batch_")
			for range 2 {
				if err = p.Pin(t.Context(), f.ID, batch, p.now.Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
			if err = p.Remove(t.Context(), "a", f.ID); err != nil {
				t.Fatal(err)
			}
			if _, err = p.Get(t.Context(), "a", f.ID); !errors.Is(err, owned.ErrUnknown) {
				t.Error(err)
			}
			p.is(t, f.ID, text)
			if err = p.Pin(t.Context(), f.ID, "another", p.now.Add(time.Hour)); !errors.Is(err, files.ErrNoContent) {
				t.Error(err)
			}
			for range 2 {
				if err = p.Unpin(t.Context(), f.ID, batch); err != nil {
					t.Fatal(err)
				}
			}
			if _, err = p.text(t, f.ID); !errors.Is(err, files.ErrNoContent) {
				t.Error(err)
			}
			if n := p.stored(t, p.now); n != 0 {
				t.Errorf("%d bytes are left", n)
			}
		}
	})
}

// A text that compresses well takes less, and comes back as it was.
func TestCompressed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		text := bytes.Repeat([]byte("{\"custom_id\": \"\x00\xff\"}\n"), most/24)
		p.is(t, p.keep(t, text, 0).ID, text)
	})
}

// No owner sees the file of another one, or reads beyond the contents.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		f := p.keep(t, []byte("hello"), 0)
		if _, err := p.Get(t.Context(), "b", f.ID); !errors.Is(err, owned.ErrUnknown) {
			t.Error(err)
		}
		if err := p.Remove(t.Context(), "b", f.ID); !errors.Is(err, owned.ErrUnknown) {
			t.Error(err)
		}
		p.is(t, f.ID, []byte("hello"))
		if found, _, err := p.List(t.Context(), "b", owned.Page{Limit: 9}); err != nil || len(found) > 0 {
			t.Error(found, err)
		}
		if _, _, err := p.List(t.Context(), "b", owned.Page{Limit: 9, After: f.ID}); !errors.Is(err, owned.ErrUnknown) {
			t.Error(err)
		}
		for _, id := range []string{"../x", "/etc/passwd", "", ".", "file-..", f.ID + "/../" + f.ID, f.ID[:20]} {
			if _, err := p.Read(t.Context(), id); !errors.Is(err, files.ErrNoContent) {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A content that is too large, or breaks off, leaves nothing, also if its caller has gone.
func TestUploadsThatFail(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		large := bytes.NewReader(make([]byte, most+1))
		if _, err := p.Write(t.Context(), "a", large, -1); !errors.Is(err, files.ErrTooLarge) {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		begun := bytes.NewReader(make([]byte, 2*files.ChunkSize+5))
		_, err := p.Write(ctx, "a", io.MultiReader(begun, calling(cancel), broken{}), -1)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		if n := p.stored(t, p.now); n != 0 {
			t.Errorf("%d bytes are left", n)
		}
	})
}

// calling is a reader that is empty, and calls a function.
type calling func()

func (c calling) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

// What a gateway stored that was killed in the middle of an upload is never served, and goes away.
func TestKilledUpload(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		id := owned.NewID("file-")
		_, err := p.contents.Create(t.Context(), id, io.MultiReader(bytes.NewReader(random(2*files.ChunkSize)), broken{}))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		if _, err = p.Read(t.Context(), id); !errors.Is(err, files.ErrNoContent) {
			t.Error(err)
		}
		if err = p.Pin(t.Context(), id, "batch", p.now.Add(time.Hour)); !errors.Is(err, files.ErrNoContent) {
			t.Error(err)
		}
		if found, _, err := p.List(t.Context(), "a", owned.Page{Limit: 9}); err != nil || len(found) > 0 {
			t.Error(found, err)
		}
		now, later := p.stored(t, p.now.Add(time.Hour)), p.stored(t, p.now.Add(3*time.Hour))
		if now != 2*files.ChunkSize || later != 0 {
			t.Errorf("%d bytes are stored, and %d three hours later", now, later)
		}
	})
}

// A content expires with its file. While a batch runs it is kept, and no longer.
func TestExpiry(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		text := random(2*files.ChunkSize + 5)
		f, began := p.keep(t, text, time.Hour), p.now
		expired := began.Add(5 * time.Hour)
		check := func(why string, want bool) {
			t.Helper()
			if n := p.stored(t, expired); (n > 0) != want {
				t.Errorf("%s: %d bytes", why, n)
			}
		}
		if err := p.Pin(t.Context(), f.ID, "batch", began.Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		check("a batch runs", true)
		p.now = began.Add(3 * time.Hour)
		if _, err := p.Get(t.Context(), "a", f.ID); !errors.Is(err, owned.ErrUnknown) {
			t.Error(err)
		}
		p.is(t, f.ID, text)
		p.now = began
		if n := p.stored(t, began.Add(28*time.Hour)); n > 0 {
			t.Errorf("%d bytes are kept for ever", n)
		}
		if err := p.Unpin(t.Context(), f.ID, "batch"); err != nil {
			t.Fatal(err)
		}
		p.is(t, f.ID, text)
		check("the batch has ended", false)
	})
}

// A sweep deletes what has expired from the folder, and what an upload left that broke off. A file of others stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	p := inFolder(t)
	if err := os.WriteFile(filepath.Join(p.folder, "notes.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.keep(t, []byte("expires"), time.Hour)
	long := p.keep(t, []byte("hello"), 0)
	if _, err := p.contents.Create(t.Context(), owned.NewID("file-"), strings.NewReader("broken off")); err != nil {
		t.Fatal(err)
	}
	p.now = p.now.Add(5 * time.Hour)
	if err := p.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.is(t, long.ID, []byte("hello"))
	if left, err := os.ReadDir(p.folder); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// A list is read page by page, in both directions.
func TestPages(t *testing.T) {
	t.Parallel()
	p := inRedis(t)
	var ids []string
	for range 5 {
		p.now = p.now.Add(time.Second)
		ids = append(ids, p.keep(t, []byte("x"), 0).ID)
	}
	for _, oldest := range []bool{true, false} {
		var got []string
		page := owned.Page{Limit: 2, Oldest: oldest}
		for more := true; more; {
			var found []owned.Record[files.File]
			var err error
			if found, more, err = p.List(t.Context(), "a", page); err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				got, page.After = append(got, f.ID), f.ID
			}
		}
		if len(got) != 5 || got[0] != ids[map[bool]int{true: 0, false: 4}[oldest]] {
			t.Errorf("oldest %v: %v", oldest, got)
		}
	}
}

// All contents of an owner take a bounded room. It comes back when a file is deleted that no batch has pinned, and when
// the last batch of a deleted file ends. So it does when an upload fails, and when a file expires.
func TestRoomOfAnOwner(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		full := func(want bool, when string) {
			t.Helper()
			u, err := p.Write(t.Context(), "a", bytes.NewReader(nil), most)
			if full := errors.Is(err, files.ErrFull); full != want || err != nil && !full {
				t.Errorf("%s: %v", when, err)
			}
			if err == nil {
				u.Drop(t.Context())
			}
		}
		var kept []owned.Record[files.File]
		for range stored / most {
			full(false, "before all room is taken")
			kept = append(kept, p.keep(t, random(most), 0))
		}
		full(true, "all room is taken")
		if u, err := p.Write(t.Context(), "b", bytes.NewReader(nil), -1); err != nil {
			t.Error(err)
		} else {
			u.Drop(t.Context())
		}
		batch := owned.NewID("batch_")
		if err := p.Pin(t.Context(), kept[0].ID, batch, p.now.Add(60*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := p.Remove(t.Context(), "a", kept[0].ID); err != nil {
			t.Fatal(err)
		}
		full(true, "a batch has the deleted file")
		for range 2 {
			if err := p.Unpin(t.Context(), kept[0].ID, batch); err != nil {
				t.Fatal(err)
			}
		}
		full(false, "the batch has ended")
		if _, err := p.Write(t.Context(), "a", broken{}, most); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(err)
		}
		full(false, "an upload has failed")
		unfinished, err := p.Write(t.Context(), "a", bytes.NewReader(nil), most)
		if err != nil || unfinished == nil {
			t.Fatal(err)
		}
		full(true, "an upload runs")
		p.now = p.now.Add(2 * 24 * time.Hour)
		full(false, "an upload was killed")
		p.now = p.now.Add(31 * 24 * time.Hour)
		for range stored / most {
			full(false, "all have expired")
			p.keep(t, random(most), 0)
		}
		full(true, "all room is taken again")
	})
}

// The smallest files count too, and a file takes a bounded number of batches.
func TestSmallFilesAndManyBatchesAreBounded(t *testing.T) {
	t.Parallel()
	p := inRedis(t)
	f := p.keep(t, nil, 0)
	n := 1
	for ; n <= stored; n++ {
		u, err := p.Write(t.Context(), "a", bytes.NewReader(nil), 0)
		if errors.Is(err, files.ErrFull) {
			break
		}
		if _, err = u.Keep(t.Context(), files.File{Name: "x", Purpose: files.PurposeBatch}, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if n > stored/4096 {
		t.Errorf("%d files", n)
	}
	for n = range 10_000 {
		if err := p.Pin(t.Context(), f.ID, owned.NewID("batch_"), p.now.Add(time.Hour)); errors.Is(err, files.ErrUsed) {
			break
		}
	}
	if n != 1000 {
		t.Errorf("%d batches", n)
	}
}
