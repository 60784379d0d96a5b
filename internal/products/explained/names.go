package explained

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/documents/batches"
)

const (
	// idLeast is the least length of the ID of a batch: shorter flows have the names that people gave them.
	idLeast = 16
	// unnamedFor is for how long a flow that is no batch is not looked up again.
	unnamedFor = time.Minute
)

// flowName is what was found of a flow; the name is empty for one that is no batch.
type flowName struct {
	name string
	at   time.Time
}

// Names returns a state.Reader's Names: the flow of a batch has the name of its file, behind its tenant. It looks up
// each batch once.
func Names(store *batches.Store) func(ctx context.Context, flows []string) map[string]string {
	var known bounded.Map[string, flowName]
	return func(ctx context.Context, flows []string) map[string]string {
		names, now := map[string]string{}, time.Now()
		for _, flow := range flows {
			found := known.Get(flow)
			if found.name == "" && now.Sub(found.at) >= unnamedFor {
				var err error
				found.at = now
				if found.name, err = nameOf(ctx, store, flow); err != nil {
					return names // each further one would wait as long
				}
				known.Change(flow, func(f *flowName) { *f = found })
			}
			if found.name != "" {
				names[flow] = found.name
			}
		}
		return names
	}
}

// nameOf is empty for a flow that is no batch.
func nameOf(ctx context.Context, store *batches.Store, flow string) (string, error) {
	at := strings.LastIndex(flow, "/") + 1 // behind the tenant
	if len(flow)-at < idLeast {
		return "", nil
	}
	b, err := store.Batch(ctx, flow[at:])
	switch {
	case errors.Is(err, batches.ErrUnavailable):
		return "", err
	case err != nil || b.ID != flow[at:] || b.Name == "":
		return "", nil //nolint:nilerr // it is no batch
	}
	return flow[:at] + b.Name, nil
}
