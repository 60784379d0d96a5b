package batch

const (
	// ChunkLines is the number of requests that are enqueued together.
	ChunkLines = 500
	// ChunkBytes is about the most that their bodies take together.
	ChunkBytes = 8_000_000
)

// Chunks gathers requests that are enqueued together. Do is called for some at a time, in their order. It must not keep
// the slice.
type Chunks[T any] struct {
	Do func(some []T) error

	some []T
	size int
}

// Add adds a request, with the length of its body in bytes. The error is that of Do.
func (c *Chunks[T]) Add(one T, bytes int) error {
	c.some = append(c.some, one)
	if c.size += bytes; len(c.some) < ChunkLines && c.size < ChunkBytes {
		return nil
	}
	return c.Flush()
}

// Flush calls Do for the requests that are left.
func (c *Chunks[T]) Flush() error {
	if len(c.some) == 0 {
		return nil
	}
	err := c.Do(c.some)
	clear(c.some)
	c.some, c.size = c.some[:0], 0
	return err
}
