package testenv

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Mongo returns the address of the MongoDB-compatible server at MONGODB_URI, and the name of a database for this test
// alone. The database does not exist yet, and is dropped when the test ends. Without MONGODB_URI the test fails.
func Mongo(tb testing.TB) (uri, database string) {
	tb.Helper()
	uri = os.Getenv("MONGODB_URI")
	if uri == "" {
		tb.Fatal("testenv: MONGODB_URI is not set: run the tests with `make test`, " +
			"or `scripts/services up` and eval \"$(scripts/services env)\" first")
	}
	// The name is short, because some servers allow 63 bytes for the whole namespace.
	database = fmt.Sprintf("hw_%.8s", uuid.NewString())
	tb.Cleanup(func() {
		ctx, cancel := cleanupContext(tb)
		defer cancel()
		if err := connect(tb, uri).Database(database).Drop(ctx); err != nil {
			tb.Errorf("testenv: drop database %s: %v", database, err)
		}
	})
	return uri, database
}

// patience is how long clients of tests look for a server. A machine that stalls needs more than the two seconds of
// package mongostore.
const patience = time.Minute

// MongoURI is Mongo for commands, as one address. Calls look for a server for a minute.
func MongoURI(tb testing.TB) string {
	tb.Helper()
	uri, database := Mongo(tb)
	scheme, rest, _ := strings.Cut(uri, "://")
	hosts, rest, _ := strings.Cut(rest, "/")
	_, query, _ := strings.Cut(rest, "?")
	if query != "" {
		query += "&"
	}
	return fmt.Sprintf("%s://%s/%s?%sserverSelectionTimeoutMS=%d", scheme, hosts, database, query,
		patience.Milliseconds())
}

// Patient changes the options of a client for a machine that stalls.
func Patient(o *options.ClientOptions) { o.SetServerSelectionTimeout(patience) }

// Database is Mongo with a connected client, which is disconnected when the test ends.
func Database(tb testing.TB) *mongo.Database {
	tb.Helper()
	uri, name := Mongo(tb)
	return connect(tb, uri).Database(name)
}

// connect returns a client that is disconnected when the test, or its cleanup, ends.
func connect(tb testing.TB, uri string) *mongo.Client {
	tb.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(patience))
	if err != nil {
		tb.Fatalf("testenv: connect to MONGODB_URI: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := cleanupContext(tb)
		defer cancel()
		if err := client.Disconnect(ctx); err != nil {
			tb.Errorf("testenv: disconnect from MONGODB_URI: %v", err)
		}
	})
	return client
}
