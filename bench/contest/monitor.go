package contest

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// CountCommands makes the client with these options count its commands under CountMongo. A monitor that the options
// have already still runs.
func (p *Probe) CountCommands(o *options.ClientOptions) {
	before := o.Monitor
	if before == nil {
		before = &event.CommandMonitor{}
	}
	o.SetMonitor(&event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			p.Count(CountMongo, 1)
			if before.Started != nil {
				before.Started(ctx, e)
			}
		},
		Succeeded: before.Succeeded,
		Failed:    before.Failed,
	})
}
