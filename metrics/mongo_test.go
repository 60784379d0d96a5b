package metrics_test

import (
	"context"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/metrics"
	"github.com/headway-go/headway/reservations/mongostore"
)

// mongo sends commands of batches and dead tasks, of which the last fails.
func (b *bundle) mongo(t *testing.T) {
	t.Helper()
	uri, database := testenv.Mongo(t)
	client, err := mongostore.Connect(t.Context(), uri, testenv.Patient, b.metrics.Mongo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	db := client.Database(database)
	in := mongostore.Documents(db)
	results := batches.New(in, batches.Options{})
	_, _ = results.Batch(t.Context(), "none")
	_, _ = results.Batch(t.Context(), "none")
	_, _ = deadtasks.New(in, deadtasks.Options{}).Count(t.Context(), deadtasks.Filter{})
	if err = db.RunCommand(t.Context(), bson.D{{Key: "nonsense", Value: 1}}).Err(); err == nil {
		t.Fatal("MongoDB knows the command")
	}
}

// All commands of MongoDB are measured by collection, whichever package sends them.
func TestMeasuresMongoDB(t *testing.T) {
	t.Parallel()
	b := bundleOf(t, memredis.Start(t), metrics.Config{})
	b.mongo(t)
	got := b.gather(t)
	wantValue(t, got, 2, "headway_mongo_call_duration_seconds", "headway_batches", "find")
	wantValue(t, got, 2, "headway_mongo_call_duration_seconds", "headway_dead", "aggregate")
	wantValue(t, got, 1, "headway_mongo_errors_total", "", "nonsense")
}

// The client's own monitor is called too, a cursor has the collection of its query, and an outage is counted while
// no command is sent.
func TestMongoDBMonitors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, metrics.Config{})
		if seen := b.monitored(t); seen != 4 {
			t.Errorf("the client's monitor was called %d times, want 4", seen)
		}
		got := b.gather(t)
		wantValue(t, got, 2, "headway_mongo_call_duration_seconds", "of cursor", "getMore")
		wantValue(t, got, 1, "headway_mongo_errors_total", "of cursor", "getMore")
		wantValue(t, got, 1, "headway_mongo_errors_total", "", "hello")
	})
}

// monitored reports commands of a cursor, of which the last fails, and a failed heartbeat, as the driver does. It
// returns how often the client's own monitor was called.
func (b *bundle) monitored(t *testing.T) (seen int) {
	t.Helper()
	settings := options.Client().SetMonitor(&event.CommandMonitor{
		Started:   func(context.Context, *event.CommandStartedEvent) { seen++ },
		Succeeded: func(context.Context, *event.CommandSucceededEvent) { seen++ },
		Failed:    func(context.Context, *event.CommandFailedEvent) { seen++ },
	})
	b.metrics.Mongo(settings)
	command, err := bson.Marshal(bson.D{{Key: "getMore", Value: int64(7)}, {Key: "collection", Value: "of cursor"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := event.CommandFinishedEvent{CommandName: "getMore", RequestID: 3}
	for range 2 {
		settings.Monitor.Started(t.Context(), &event.CommandStartedEvent{
			Command: command, CommandName: "getMore", RequestID: 3,
		})
		if seen < 2 {
			settings.Monitor.Succeeded(t.Context(), &event.CommandSucceededEvent{CommandFinishedEvent: ended})
		}
	}
	settings.Monitor.Failed(t.Context(), &event.CommandFailedEvent{CommandFinishedEvent: ended})
	settings.ServerMonitor.ServerHeartbeatFailed(&event.ServerHeartbeatFailedEvent{})
	return seen
}
