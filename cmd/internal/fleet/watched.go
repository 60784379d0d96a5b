package fleet

import (
	"context"
	"time"

	"github.com/headway-go/headway/cmd/internal/session"
)

// watchEvery is how often a file is looked at.
const watchEvery = 500 * time.Millisecond

// watchFile calls changed for each change of the file, until ctx ends.
func watchFile(ctx context.Context, name string, changed func()) {
	isNew := session.Changes(name)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if isNew() {
				changed()
			}
		}
	}
}
