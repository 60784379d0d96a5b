package files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/products/files"
)

// upload is a content that a caller sends. It fails a test if much more was read of it than is stored.
type upload struct {
	t     *testing.T
	place *place
	left  int
	read  int64
}

func (u *upload) Read(p []byte) (int, error) {
	if waits := u.read - u.place.stored(u.t, u.place.now); waits > files.ChunkSize {
		u.t.Fatalf("of %d bytes %d are in memory", u.read, waits)
	}
	n := min(len(p), u.left)
	if n == 0 {
		return 0, io.EOF
	}
	u.left, u.read = u.left-n, u.read+int64(n)
	return n, nil
}

// Of a content that arrives, no more than one chunk is in memory.
func TestUploadIsStreamed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		u, err := p.Write(t.Context(), "a", &upload{t: t, place: p, left: most}, most)
		if err != nil || u.Bytes != most {
			t.Error(u, err)
		}
	})
}

// Of a content that is sent, no more than one chunk is in memory: what is deleted meanwhile is missed.
func TestDownloadIsStreamed(t *testing.T) {
	t.Parallel()
	p := inRedis(t)
	text := random(3 * files.ChunkSize)
	f := p.keep(t, text, 0)
	content, err := p.Read(t.Context(), f.ID)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*files.ChunkSize)
	if _, err = io.ReadFull(content, got); err != nil || !bytes.Equal(got, text[:len(got)]) {
		t.Fatal(err)
	}
	p.cut(t, f.ID)
	if n, err := io.Copy(io.Discard, content); !errors.Is(err, files.ErrNoContent) || n > 0 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A content whose end is missing is never taken for a whole one.
func TestCutContent(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		f := p.keep(t, random(2*files.ChunkSize), 0)
		p.cut(t, f.ID)
		if _, err := p.text(t, f.ID); !errors.Is(err, files.ErrNoContent) {
			t.Error(err)
		}
	})
}

// Redis has its memory back at once from a deleted file, and with the next write from a killed upload.
func TestMemoryOfRedis(t *testing.T) {
	t.Parallel()
	p := inRedis(t)
	count := func() (n int) {
		in := p.docs.Collection("gateway_chunks")
		for _, err := range (documents.Reader{
			Collection: in, Page: documents.InKeys(in, documents.Keys{To: "~"}),
		}).All(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	f := p.keep(t, random(most), 0)
	if n := count(); n != 6 {
		t.Errorf("%d chunks of %d bytes", n, most)
	}
	if err := p.Remove(t.Context(), "a", f.ID); err != nil || count() != 0 {
		t.Errorf("%d chunks, %v", count(), err)
	}
	p.now = p.now.Add(-3 * time.Hour)
	_, err := p.contents.Create(t.Context(), "killed", io.MultiReader(bytes.NewReader(random(files.ChunkSize)), broken{}))
	p.now = p.now.Add(3 * time.Hour)
	p.keep(t, []byte("x"), 0)
	if n := count(); n != 1 || err == nil {
		t.Errorf("%d chunks, %v", n, err)
	}
}

// during calls a function at its first Expire, before that counts.
type during struct {
	files.Contents

	call func()
}

func (d *during) Expire(ctx context.Context, id string, at time.Time) error {
	if call := d.call; call != nil {
		d.call = nil
		call()
	}
	return d.Contents.Expire(ctx, id, at)
}

// While one gateway unpins a content, another one pins it for longer: it stays for so long.
func TestPinnedMeanwhile(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, p *place) {
		t.Helper()
		f := p.keep(t, []byte("hello"), time.Hour)
		if err := p.Pin(t.Context(), f.ID, "one", p.now.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		d := &during{p.contents, func() {
			if err := p.Pin(t.Context(), f.ID, "another", p.now.Add(48*time.Hour)); err != nil {
				t.Error(err)
			}
		}}
		if err := files.New(p.docs, d, files.Bounds{File: most}, p.clock).Unpin(t.Context(), f.ID, "one"); err != nil {
			t.Fatal(err)
		}
		if n := p.stored(t, p.now.Add(40*time.Hour)); n == 0 {
			t.Error("it goes away too early")
		}
	})
}
