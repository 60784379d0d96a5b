package testenv_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/test/testenv"
)

func TestRedisDatabasesAreApart(t *testing.T) {
	t.Parallel()
	const tests = 20 // more than the 15 free databases of a default Redis
	taken := make(map[string]bool)
	var mu sync.Mutex // guards the variables below
	for range tests {
		t.Run("one", func(t *testing.T) {
			t.Parallel()
			url := testenv.Redis(t)
			client := dialRedis(t, url)
			mu.Lock()
			if taken[url] {
				t.Errorf("%s is given to two tests at once", url)
			}
			taken[url] = true
			mu.Unlock()
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				delete(taken, url)
			})
			if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
				t.Fatalf("a new database has %d keys, error %v", n, err)
			}
			if err := client.Set(t.Context(), "mine", url, 0).Err(); err != nil {
				t.Fatalf("set: %v", err)
			}
		})
	}
}

func TestMongoDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	var uri, database string
	t.Run("use it", func(t *testing.T) { // not parallel: the outer test checks the data after it
		uri, database = testenv.Mongo(t)
		things := dialMongo(t, uri).Database(database).Collection("things")
		if _, err := things.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "a"}}); err != nil {
			t.Fatalf("insert: %v", err)
		}
	})
	names, err := dialMongo(t, uri).ListDatabaseNames(t.Context(), bson.D{{Key: "name", Value: database}})
	if err != nil {
		t.Fatalf("list databases: %v", err)
	}
	if len(names) != 0 {
		t.Fatalf("database %s is still there", database)
	}
}

func TestMongoThroughAProxyThatIsCut(t *testing.T) {
	t.Parallel()
	uri, database := testenv.Mongo(t)
	host := options.Client().ApplyURI(uri).Hosts[0]
	proxy := testenv.NewProxy(t, host)
	client := dialMongo(t, "mongodb://"+proxy.Addr()+"/?directConnection=true")
	things := client.Database(database).Collection("things")
	insert := func(id string, within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := things.InsertOne(ctx, bson.D{{Key: "_id", Value: id}})
		return err
	}
	if err := insert("before", patience); err != nil {
		t.Fatalf("insert: %v", err)
	}
	proxy.Cut()
	if err := insert("during", time.Second); err == nil {
		t.Fatal("insert through a cut proxy: no error")
	}
	proxy.Restore()
	if err := insert("after", patience); err != nil {
		t.Fatalf("insert after Restore: %v", err)
	}
}

func TestRedisServerKeepsItsDataThroughAKill(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedisServer(t)
	client := dialRedis(t, server.URL())
	// With everysec the last second may be lost, which this test must not.
	if err := client.ConfigSet(t.Context(), "appendfsync", "always").Err(); err != nil {
		t.Fatalf("config set: %v", err)
	}
	if err := client.Set(t.Context(), "key", "value", 0).Err(); err != nil {
		t.Fatalf("set: %v", err)
	}
	server.Kill()
	server.Kill() // twice is once
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	server.Restart(t)
	if got, err := client.Get(t.Context(), "key").Result(); err != nil || got != "value" {
		t.Fatalf("get after the restart: %q, error %v", got, err)
	}
}

func dialRedis(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatalf("parse %s: %v", url, err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func dialMongo(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	o := options.Client().ApplyURI(uri)
	testenv.Patient(o)
	client, err := mongo.Connect(o)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) })
	return client
}
