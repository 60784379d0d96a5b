package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/packed"
)

// ChunkSize is how many bytes of a content are one document, and in memory at once.
const ChunkSize = 255 << 10

// chunks has a document for each ChunkSize bytes of a content. Each chunk expires by itself.
type chunks struct {
	in  documents.Collection
	now func() time.Time
}

// InDocuments returns contents as documents, compressed. All gateways of the store see them. Nil as the clock means
// time.Now.
func InDocuments(in documents.Store, now func() time.Time) Contents {
	if now == nil {
		now = time.Now
	}
	return chunks{in.Collection("gateway_chunks"), now}
}

func (chunks) Close() error { return nil }

func (c chunks) Sweep(ctx context.Context) error { return c.in.EnsureIndexes(ctx) } // the store deletes

// chunkKey is the key of a chunk. Keys of a content are in the order of its chunks.
func chunkKey(id string, n int64) string { return fmt.Sprintf("%s/%08d", id, n) }

// fieldChunk is the only field of a body: the bytes, see package packed.
const fieldChunk = "c"

func (c chunks) Create(ctx context.Context, id string, from io.Reader) (size int64, err error) {
	buffer := make([]byte, ChunkSize)
	for n := int64(0); ; n++ {
		length, ended, err := fill(buffer, from)
		if err != nil {
			return size, err
		}
		if length > 0 {
			if err = c.put(ctx, chunkKey(id, n), buffer[:length]); err != nil {
				return size, fmt.Errorf("store a part of a file: %w", err)
			}
			size += int64(length)
		}
		if ended {
			return size, nil
		}
	}
}

// fill reads until the buffer is full. Unlike io.ReadFull it keeps the error of a reader apart from the end.
func fill(buffer []byte, from io.Reader) (length int, ended bool, err error) {
	for length < len(buffer) && err == nil {
		var n int
		n, err = from.Read(buffer[length:])
		length += n
	}
	if ended = errors.Is(err, io.EOF); ended {
		err = nil
	}
	return length, ended, err
}

// put stores a new chunk.
func (c chunks) put(ctx context.Context, key string, text []byte) error {
	return documents.UpdateOne(ctx, c.in, documents.Change{
		Key: key, New: true,
		Apply: func(d *documents.Document) (_ bool, err error) {
			d.Head, d.Expires = documents.Empty, c.now().Add(unfinished).UTC()
			d.Body, err = bson.Marshal(bson.D{{Key: fieldChunk, Value: packed.Pack(text)}})
			return true, err
		},
	})
}

func (c chunks) Expire(ctx context.Context, id string, at time.Time) error {
	next := documents.InKeys(c.in, documents.Prefix(id+"/"))
	var last *documents.Document
	for {
		page, err := next(ctx, last)
		if err != nil || len(page) == 0 {
			return err
		}
		last = &page[len(page)-1]
		changes := make([]documents.Change, len(page))
		for i, d := range page {
			changes[i] = documents.Change{Key: d.Key, Apply: func(d *documents.Document) (bool, error) {
				stored := d.Version != ""
				d.Expires = at.UTC()
				return stored, nil
			}}
		}
		if err = cmp.Or(documents.Update(ctx, c.in, changes)...); err != nil {
			return err
		}
	}
}

func (c chunks) Open(ctx context.Context, id string, size int64) (io.ReadCloser, error) {
	return &chunkReader{chunks: c, ctx: ctx, id: id, left: size}, nil
}

// chunkReader reads a content chunk by chunk. Between two of them it holds nothing open, so its user may be slow.
type chunkReader struct {
	chunks

	ctx  context.Context //nolint:containedctx // of Open: an io.Reader has none
	id   string
	next int64
	left int64  // bytes behind rest
	rest []byte // of the chunk that was read last
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		if err := r.read(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// read reads the next chunk.
func (r *chunkReader) read() error {
	key := chunkKey(r.id, r.next)
	found, err := r.in.Get(r.ctx, []string{key}, true)
	if err != nil {
		return err
	}
	text, err := packed.Unpack(found[key].Body.Lookup(fieldChunk))
	if want := min(r.left, ChunkSize); err == nil && int64(len(text)) != want {
		err = fmt.Errorf("it has %d of %d bytes", len(text), want)
	}
	if err != nil {
		return fmt.Errorf("%w: chunk %s: %w", ErrNoContent, key, err)
	}
	r.rest, r.left, r.next = text, r.left-int64(len(text)), r.next+1
	return nil
}
