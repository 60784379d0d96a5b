package testenv

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/drivertest"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/xoptions"
)

// MongoAnswers returns a database whose server gives these answers, one for each command, and no others. It uses no
// network, and works in bubbles. Sent returns the names of the commands that it got. Each change may set options of the
// driver.
func MongoAnswers(tb testing.TB, answers []bson.D, change ...func(*options.ClientOptions)) (
	db *mongo.Database, sent func() []string,
) {
	tb.Helper()
	var names []string
	settings := options.Client().SetRetryReads(false).SetRetryWrites(false)
	for _, c := range change {
		c(settings)
	}
	before := settings.Monitor
	settings.SetMonitor(&event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) {
		names = append(names, e.CommandName)
		if before != nil {
			before.Started(ctx, e)
		}
	}})
	server := drivertest.NewMockDeployment(answers...)
	if err := xoptions.SetInternalClientOptions(settings, "deployment", server); err != nil {
		tb.Fatal(err)
	}
	client, err := mongo.Connect(settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = client.Disconnect(context.WithoutCancel(tb.Context()))
	})
	return client.Database("d"), func() []string { return names }
}

// Deadlock is how FerretDB answers a command that PostgreSQL rolled back.
func Deadlock() bson.D { return failure(1, "InternalError", "deadlock detected") }

// SteppingDown is how MongoDB answers a command that it may have begun when another server became the primary.
func SteppingDown() bson.D {
	return append(failure(11602, "InterruptedDueToReplStateChange", "operation was interrupted"),
		bson.E{Key: "errorLabels", Value: bson.A{"RetryableWriteError"}})
}

func failure(code int, name, text string) bson.D {
	return bson.D{
		{Key: "ok", Value: 0},
		{Key: "code", Value: code},
		{Key: "codeName", Value: name},
		{Key: "errmsg", Value: text},
	}
}

// Found is the answer to a command that reads documents.
func Found(documents ...bson.D) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)},
		{Key: "ns", Value: "d.c"},
		{Key: "firstBatch", Value: append([]bson.D{}, documents...)},
	}}}
}

// Wrote is the answer to a command that writes one document.
func Wrote() bson.D { return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1}} }
