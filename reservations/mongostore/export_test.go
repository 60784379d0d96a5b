package mongostore

// Swapping says when a store swaps.
type Swapping = swapping

// The modes of a store.
const (
	SwapAdaptive = swapAdaptive
	SwapAlways   = swapAlways
	SwapNever    = swapNever
)

// With returns the options of a store that swaps so.
func (o Options) With(mode Swapping) Options {
	o.swapping = mode
	return o
}

// Remembered is how many buckets the store knows.
func (s *Store) Remembered() int {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return len(s.memory.buckets)
}
