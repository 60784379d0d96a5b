package metrics

import (
	"maps"
	"slices"
	"sync"
	"unicode/utf8"
)

const (
	// other is the label of all values for which there is no label of their own.
	other = "other"
	// labelMost bounds a label, in bytes. A longer name, and one that is not UTF-8, is no label of its own.
	labelMost = 512
)

// cache holds a value for each of the first keys, up to most of them, so that their labels are looked up once. Safe
// for concurrent use.
type cache[K comparable, V any] struct {
	most int

	mu    sync.RWMutex // guards known
	known map[K]V
}

func newCache[K comparable, V any](most int) *cache[K, V] {
	return &cache[K, V]{most: most, known: map[K]V{}}
}

// get returns the value of a key, which create makes once. It is false for a further key.
func (c *cache[K, V]) get(key K, create func() V) (value V, known bool) {
	c.mu.RLock()
	value, known = c.known[key]
	full := len(c.known) >= c.most
	c.mu.RUnlock()
	if known || full {
		return value, known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if value, known = c.known[key]; known || len(c.known) >= c.most {
		return value, known
	}
	value = create()
	c.known[key] = value
	return value, true
}

// labels are the values of a label that other programs choose: the first ones.
type labels struct{ *cache[string, string] }

func newLabels(most int) labels { return labels{newCache[string, string](most)} }

// of returns the value as a label, or other.
func (l labels) of(value string) string {
	if len(value) > labelMost || !utf8.ValidString(value) {
		return other
	}
	if _, known := l.get(value, func() string { return value }); !known {
		return other
	}
	return value
}

// keys are the keys of limits as labels, by limit.
type keys map[string]labels

// label is empty for the bucket that all keys share.
func (k keys) label(limit, key string) string {
	switch l, labelled := k[limit]; {
	case key == "":
		return ""
	case labelled:
		return l.of(key)
	default:
		return other
	}
}

// of returns the keys of a limit that have labels.
func (k keys) of(limit string) []string {
	l, labelled := k[limit]
	if !labelled {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(l.known))
}
