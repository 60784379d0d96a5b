package connect_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
)

// process is what one process of a fleet has in its environment and its headway.yaml.
type process struct{ redis, mongo, buckets string }

func (p process) getenv(name string) string {
	return map[string]string{"REDIS_URL": p.redis, "MONGODB_URI": p.mongo}[name]
}

// databases returns the addresses of two databases of one server, which are dropped at the end.
func databases(t *testing.T) (a, b string) {
	t.Helper()
	uri, database := testenv.Mongo(t)
	named := func(name string) string {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + name
		return u.String()
	}
	other := database + "b"
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = client.Database(other).Drop(ctx), client.Disconnect(ctx)
	})
	return named(database), named(other)
}

// All processes of a Redis use one store of buckets and one database of records, or do not start.
func TestSplit(t *testing.T) {
	t.Parallel()
	a, b := databases(t)
	open := func(ctx context.Context, p process) (*connect.Buckets, error) {
		return connect.Open(ctx, p.getenv, p.buckets, nil, nil)
	}
	records := func(ctx context.Context, p process) (*connect.Buckets, error) {
		return connect.Records(ctx, p.getenv, nil, nil)
	}
	dead := func(ctx context.Context, p process) (*connect.Buckets, error) {
		buckets, err := connect.Records(ctx, p.getenv, nil, nil)
		if err == nil {
			_, err = buckets.Dead(ctx)
		}
		return buckets, err
	}
	const inRedis, inMongo = config.BucketsRedis, config.BucketsMongoDB
	for name, c := range map[string]struct {
		first, second process // without their Redis
		by            func(context.Context, process) (*connect.Buckets, error)
		role          register.Role // empty: they agree
	}{
		"one database":                   {process{mongo: a}, process{mongo: a, buckets: inMongo}, open, ""},
		"two databases":                  {process{mongo: a}, process{mongo: b}, open, register.RoleBuckets},
		"the second in Redis":            {process{mongo: a}, process{}, open, register.RoleBuckets},
		"the first in Redis":             {process{}, process{mongo: a}, open, register.RoleBuckets},
		"both in Redis":                  {process{}, process{}, open, ""},
		"both in Redis, one has records": {process{}, process{mongo: a, buckets: inRedis}, open, ""},
		"in Redis, records in two": {
			process{mongo: a, buckets: inRedis}, process{mongo: b, buckets: inRedis}, open, register.RoleRecords,
		},
		"the records of one database":       {process{mongo: a}, process{mongo: a}, records, ""},
		"the records of the other database": {process{mongo: a}, process{mongo: b}, records, register.RoleRecords},
		"the records beside Redis":          {process{}, process{mongo: b}, records, ""},
		"dead tasks in Redis":               {process{}, process{}, dead, ""},
		"dead tasks not in the database":    {process{mongo: a, buckets: inRedis}, process{}, dead, register.RoleRecords},
	} {
		c.first.redis = testenv.Redis(t)
		c.second.redis = c.first.redis
		for range 2 {
			first, err := open(t.Context(), c.first)
			if err == nil {
				err = first.Close(t.Context())
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		second, err := c.by(t.Context(), c.second)
		if err == nil {
			_ = second.Close(t.Context())
		}
		var split *register.SplitError
		if errors.As(err, &split) != (c.role != "") || (err != nil) != (c.role != "") {
			t.Errorf("%s: %v", name, err)
		}
		if split != nil && (split.Role != c.role || split.Own.ID == split.Fleets.ID ||
			strings.Contains(err.Error(), "://") || strings.Contains(err.Error(), "@")) {
			t.Errorf("%s: %+v: %v", name, split, err)
		}
	}
}

// One database may serve two Redis fleets, and a fleet may move: the operator deletes the key.
func TestSplitOnPurpose(t *testing.T) {
	t.Parallel()
	a, b := databases(t)
	one, two := testenv.Redis(t), testenv.Redis(t)
	for _, p := range []process{{redis: one, mongo: a}, {redis: two, mongo: a}} {
		buckets, err := connect.Open(t.Context(), p.getenv, "", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = buckets.Close(t.Context())
	}
	client, err := connect.Redis(t.Context(), process{redis: one}.getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if err = client.Del(t.Context(), register.KeyStores).Err(); err != nil {
		t.Fatal(err)
	}
	moved, err := connect.Open(t.Context(), process{redis: one, mongo: b}.getenv, "", client, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = moved.Close(t.Context())
}

// A command that needs no queue goes on while Redis is away.
func TestSplitWithoutRedis(t *testing.T) {
	t.Parallel()
	a, _ := databases(t)
	away := process{redis: "redis://127.0.0.1:1/0?max_retries=-1", mongo: a}
	for name, by := range map[string]func() (*connect.Buckets, error){
		"open":    func() (*connect.Buckets, error) { return connect.Open(t.Context(), away.getenv, "", nil, nil) },
		"records": func() (*connect.Buckets, error) { return connect.Records(t.Context(), away.getenv, nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			buckets, err := by()
			if err != nil {
				t.Fatal(err)
			}
			_ = buckets.Close(t.Context())
		})
	}
}
