package connect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/redisstore"
)

// Buckets are in the store of headway.yaml; by default in MongoDB if it is configured, else in Redis. Records are in
// MongoDB if it is configured, else in Redis.
func TestOpen(t *testing.T) {
	t.Parallel()
	uri, _ := testenv.Mongo(t)
	for what, c := range map[string]struct {
		said, uri string
		inRedis   bool
		records   string
	}{
		"nothing said":              {"", "", true, "Redis"},
		"MongoDB given":             {"", uri, false, "MongoDB"},
		"redis said":                {config.BucketsRedis, "", true, "Redis"},
		"redis said, MongoDB given": {config.BucketsRedis, uri, true, "MongoDB"},
	} {
		env := map[string]string{"REDIS_URL": testenv.Redis(t), "MONGODB_URI": c.uri}
		getenv := func(k string) string { return env[k] }
		b, err := connect.Open(t.Context(), getenv, c.said, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		_, inRedis := b.Store.(*redisstore.Store)
		_, inMongo := b.Store.(*mongostore.Store)
		if inRedis != c.inRedis || inMongo == inRedis || connect.RecordsIn(getenv) != c.records {
			t.Errorf("%s: in redis %v, in MongoDB %v, records in %s", what, inRedis, inMongo, connect.RecordsIn(getenv))
		}
		records, err := connect.Records(t.Context(), getenv, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		store, err := b.Batches(t.Context())
		if err == nil {
			_, _, err = store.Open(t.Context(), batches.Batch{ID: "b", Lines: 1})
		}
		if err == nil {
			store, err = records.Batches(t.Context())
		}
		if err == nil {
			_, err = store.Batch(t.Context(), "b")
		}
		if err == nil {
			_, err = b.Dead(t.Context())
		}
		if err != nil {
			t.Errorf("%s: records: %v", what, err)
		}
		if _, err = b.Overrides(t.Context()); err != nil {
			t.Errorf("%s: overrides: %v", what, err)
		}
		if err = errors.Join(b.Close(t.Context()), records.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

func TestMongoNotSet(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	_, err := connect.Mongo(t.Context(), none, nil)
	_, said := connect.Open(t.Context(), none, config.BucketsMongoDB, nil, nil)
	for _, err := range []error{err, said} {
		if !errors.Is(err, connect.ErrNotSet) || !strings.HasPrefix(err.Error(), "MONGODB_URI is not set") {
			t.Errorf("got %v", err)
		}
	}
}
