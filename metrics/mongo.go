package metrics

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/state/metric"
)

// Mongo measures the commands of a MongoDB client: pass it to mongostore.Connect, or call it with the settings of your
// own client. A monitor of commands that the settings have is called too; a monitor of servers is replaced.
func (m *Metrics) Mongo(settings *options.ClientOptions) {
	others := event.CommandMonitor{}
	if settings.Monitor != nil {
		others = *settings.Monitor
	}
	var collections sync.Map // of commands under way, by the ID of the request
	note := func(e event.CommandFinishedEvent) (labels []string) {
		collection, _ := collections.LoadAndDelete(e.RequestID)
		name, _ := collection.(string)
		labels = []string{name, e.CommandName}
		m.observe(e.Duration, metric.MongoSeconds, labels...)
		return labels
	}
	settings.SetMonitor(&event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			collections.Store(e.RequestID, m.collections.of(collectionOf(e)))
			if others.Started != nil {
				others.Started(ctx, e)
			}
		},
		Succeeded: func(ctx context.Context, e *event.CommandSucceededEvent) {
			note(e.CommandFinishedEvent)
			if others.Succeeded != nil {
				others.Succeeded(ctx, e)
			}
		},
		Failed: func(ctx context.Context, e *event.CommandFailedEvent) {
			m.count(metric.MongoErrors, note(e.CommandFinishedEvent)...)
			if others.Failed != nil {
				others.Failed(ctx, e)
			}
		},
	})
	settings.SetServerMonitor(&event.ServerMonitor{ServerHeartbeatFailed: func(*event.ServerHeartbeatFailedEvent) {
		m.count(metric.MongoErrors, "", "hello")
	}})
}

// collectionOf is the collection of a command; empty for a command of the server or the database.
func collectionOf(e *event.CommandStartedEvent) string {
	value := e.Command.Lookup(e.CommandName)
	if e.CommandName == "getMore" { // of a cursor
		value = e.Command.Lookup("collection")
	}
	name, _ := value.StringValueOK()
	return name
}
