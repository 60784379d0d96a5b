package metrics

import (
	"sync"
	"unicode/utf8"
)

const (
	// other is the label of all values for which there is no label of their own.
	other = "other"
	// labelMost bounds a label, in bytes. A longer name, and one that is not UTF-8, is no label of its own.
	labelMost = 512
)

// bounded holds label values: the first ones, up to most of them. Safe for concurrent use.
type bounded struct {
	most int

	mu    sync.RWMutex // guards known
	known map[string]bool
}

func newBounded(most int) *bounded { return &bounded{most: most, known: map[string]bool{}} }

// label returns the value as a label, or other.
func (b *bounded) label(value string) string {
	if len(value) > labelMost || !utf8.ValidString(value) {
		return other
	}
	b.mu.RLock()
	known := b.known[value]
	full := len(b.known) >= b.most
	b.mu.RUnlock()
	switch {
	case known:
		return value
	case full:
		return other
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= b.most && !b.known[value] {
		return other
	}
	b.known[value] = true
	return value
}

// values returns the values that have labels of their own.
func (b *bounded) values() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	values := make([]string, 0, len(b.known))
	for value := range b.known {
		values = append(values, value)
	}
	return values
}

// keys are the keys of limits as labels.
type keys map[string]*bounded

func newKeys(most map[string]int) keys {
	k := keys{}
	for limit, n := range most {
		k[limit] = newBounded(n)
	}
	return k
}

// label is empty for the bucket that all keys share.
func (k keys) label(limit, key string) string {
	switch b := k[limit]; {
	case key == "":
		return ""
	case b == nil:
		return other
	default:
		return b.label(key)
	}
}

// of returns the keys of a limit that have labels.
func (k keys) of(limit string) []string {
	if b := k[limit]; b != nil {
		return b.values()
	}
	return nil
}
