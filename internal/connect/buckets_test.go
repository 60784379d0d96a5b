package connect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/reservations/redisstore"
)

// Buckets are in the store of headway.yaml; by default in MongoDB if it is configured, else in Redis. Results need
// MongoDB.
func TestOpen(t *testing.T) {
	t.Parallel()
	uri, _ := testenv.Mongo(t)
	for what, c := range map[string]struct {
		said, uri string
		inRedis   bool
		results   error
	}{
		"nothing said":              {"", "", true, connect.ErrNotSet},
		"MongoDB given":             {"", uri, false, nil},
		"redis said":                {config.BucketsRedis, "", true, connect.ErrNotSet},
		"redis said, MongoDB given": {config.BucketsRedis, uri, true, nil},
	} {
		env := map[string]string{"REDIS_URL": testenv.Redis(t), "MONGODB_URI": c.uri}
		b, err := connect.Open(t.Context(), func(k string) string { return env[k] }, c.said, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		_, inRedis := b.Store.(*redisstore.Store)
		_, inMongo := b.Store.(*mongostore.Store)
		var store *batches.Store
		store, err = b.Batches(t.Context())
		if inRedis != c.inRedis || inMongo == inRedis || !errors.Is(err, c.results) || (store == nil) != (c.results != nil) ||
			b.InMongo() != (c.uri != "") {
			t.Errorf("%s: in redis %v, in MongoDB %v, results %v", what, inRedis, inMongo, err)
		}
		_, err = b.Dead(t.Context())
		if !errors.Is(err, c.results) {
			t.Errorf("%s: dead tasks: %v", what, err)
		}
		if _, err = b.Overrides(t.Context()); err != nil {
			t.Errorf("%s: overrides: %v", what, err)
		}
		if err = b.Close(t.Context()); err != nil {
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
