// Package bounded remembers what may be forgotten.
package bounded

import (
	"cmp"
	"sync"
)

// mostDefault is how many keys a map has at most that names no number.
const mostDefault = 4096

// Map is a map that never has more than Most keys: a further key takes the place of any other. Set Most before the
// first use; zero means 4096. Safe for concurrent use.
type Map[K comparable, V any] struct {
	Most int

	mu     sync.Mutex // guards values
	values map[K]V
}

// Get returns the value of a key; zero if there is none.
func (m *Map[K, V]) Get(key K) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key]
}

// Change changes the value of a key, which is zero if there is none. By must not use the map.
func (m *Map[K, V]) Change(key K, by func(*V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, known := m.values[key]
	if by(&value); !known && len(m.values) >= cmp.Or(m.Most, mostDefault) {
		for other := range m.values { // any one
			delete(m.values, other)
			break
		}
	}
	if m.values == nil {
		m.values = map[K]V{}
	}
	m.values[key] = value
}

// Delete forgets a key.
func (m *Map[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
