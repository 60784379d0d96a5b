package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"time"
)

// watchEvery is how often a file is looked at. Editors replace files, so its content counts.
const watchEvery = 500 * time.Millisecond

// watchedFile is a file whose content may change.
type watchedFile struct {
	name string
	sum  []byte
}

func newWatchedFile(name string) *watchedFile {
	w := &watchedFile{name: name}
	w.changed()
	return w
}

// changed says whether the content is another one than the last time. A file that is away for a moment has not changed.
func (w *watchedFile) changed() bool {
	text, err := os.ReadFile(w.name)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(text)
	if bytes.Equal(sum[:], w.sum) {
		return false
	}
	w.sum = sum[:]
	return true
}

// watchFile calls changed for each change of the file, until ctx ends.
func watchFile(ctx context.Context, name string, changed func()) {
	watched := newWatchedFile(name)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if watched.changed() {
				changed()
			}
		}
	}
}
