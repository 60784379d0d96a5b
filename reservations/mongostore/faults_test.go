package mongostore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
)

// proxied is MONGODB_URI with the host replaced by a proxy's.
func proxied(t *testing.T) (*testenv.Proxy, string, string) {
	t.Helper()
	uri, name := testenv.Mongo(t)
	settings, err := mongostore.ClientOptions(uri)
	if err != nil || len(settings.Hosts) != 1 {
		t.Fatalf("one host is needed in MONGODB_URI: %v", err)
	}
	proxy := testenv.NewProxy(t, settings.Hosts[0])
	through := strings.Replace(uri, settings.Hosts[0], proxy.Addr(), 1)
	separator := "?"
	if strings.Contains(through, "?") {
		separator = "&"
	} else if strings.Count(through, "/") < 3 {
		separator = "/?"
	}
	return proxy, through + separator + "directConnection=true", name
}

func wantUnavailable(t *testing.T, err error, applied ...bucket.Applied) {
	t.Helper()
	var u *bucket.UnavailableError
	if !errors.Is(err, reservations.ErrUnavailable) || !errors.As(err, &u) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	if !slices.Contains(applied, u.Applied) {
		t.Errorf("applied %q, want %q: %v", u.Applied, applied, err)
	}
}

func TestCutConnection(t *testing.T) {
	t.Parallel()
	proxy, uri, name := proxied(t)
	c := sent{hasty: true}
	store := c.open(t, uri, name)
	apply(t, store, limit, request(1)...)
	proxy.Cut()
	// The first may have been written to a connection that was just cut; then nothing can be sent any more.
	_, err := bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(1))
	wantUnavailable(t, err, bucket.AppliedMaybe, bucket.AppliedNo)
	_, err = bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(1))
	wantUnavailable(t, err, bucket.AppliedNo)
	wantUnavailable(t, store.Reset(t.Context(), limit.Name, ""), bucket.AppliedNo)
	_, _, err = bucket.Read(t.Context(), store, "api", "")
	wantUnavailable(t, err, bucket.AppliedNo)
	if err = store.EnsureIndexes(t.Context()); !errors.Is(err, reservations.ErrUnavailable) {
		t.Errorf("indexes: %v", err)
	}
	proxy.Restore()
	apply(t, store, limit, request(1)...)
}

// The request leaves and no answer comes: it may have been applied.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	proxy, uri, name := proxied(t)
	var c sent
	err := c.swapInSilence(t, proxy, c.open(t, uri, name))
	wantUnavailable(t, err, bucket.AppliedMaybe)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// A client that the store can't watch: doubts count as maybe, and what is certain stays certain.
func TestForeignClient(t *testing.T) {
	t.Parallel()
	proxy, uri, name := proxied(t)
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(3 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(t.Context())) }()
	proxy.Cut()
	store := mongostore.New(client.Database(name), mongostore.Options{})
	_, err = bucket.Apply(t.Context(), store, bucket.Rules(limit), "", request(1))
	wantUnavailable(t, err, bucket.AppliedNo, bucket.AppliedMaybe)
	proxy.Restore()
	apply(t, store, limit, request(1)...)
}

// Calls fail fast while no server is there: the driver itself looks for one for 30 seconds.
func TestSelectionTimeout(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]time.Duration{
		"mongodb://a": 2 * time.Second, "mongodb://a/?serverSelectionTimeoutMS=70000": 70 * time.Second,
	} {
		settings, err := mongostore.ClientOptions(uri)
		if err != nil || settings.ServerSelectionTimeout == nil || *settings.ServerSelectionTimeout != want {
			t.Errorf("%s: %v, %v, want %v", uri, settings.ServerSelectionTimeout, err, want)
		}
	}
}

func TestConnectUnreachable(t *testing.T) {
	t.Parallel()
	proxy, uri, _ := proxied(t)
	proxy.Cut()
	secret := strings.Replace(uri, "mongodb://", "mongodb://jane:s3cret%21@", 1)
	_, err := mongostore.Connect(t.Context(), secret)
	if !errors.Is(err, reservations.ErrUnavailable) || !strings.Contains(err.Error(), proxy.Addr()) {
		t.Errorf("got %v, want ErrUnavailable with the address", err)
	}
	wantNoSecret(t, err)
}

func TestMalformedURI(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"", "jane:s3cret!@host", "postgres://jane:s3cret!@host", "mongodb://jane:s3cret!@host:port",
		"mongodb://jane:s3cret%21@",
		"mongodb://jane:s3cret%zz!@host", "mongodb://jane:s3cret/!@host",
		"mongodb://jane:s3cret!@host/?authMechanism=nonsense",
		"mongodb://jane:s3cret!@host/?tls=perhaps", "mongodb://jane:s3cret:!@host", "mongodb+srv://jane:s3cret!@host:1",
	} {
		_, err := mongostore.Connect(t.Context(), uri)
		if err == nil || !strings.HasPrefix(err.Error(), "connect to MongoDB: ") {
			t.Errorf("%q: got %v", uri, err)
		}
		wantNoSecret(t, err)
	}
}

// An address is accepted or refused without its credentials, whatever else it has. No address is dialled.
func FuzzOptions(f *testing.F) {
	for _, rest := range []string{
		"h/d?tls=x", "h/d?authMechanism=PLAIN", "h/?tlsCAFile=/none", "h/?w=-1", "h/?maxPoolSize=-5", "h/?a=b;c=d", "h:port",
		"[::1", "h/%ff/../..?x=%zz", "h\r\nX: y/", "", "%",
	} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		if strings.Contains(rest, "s3cret") || strings.Contains(rest, "jane") || strings.Contains(rest, "@") {
			return
		}
		_, err := mongostore.ClientOptions("mongodb://jane:s3cret!@" + rest)
		wantNoSecret(t, err)
	})
}

func wantNoSecret(t *testing.T, err error) {
	t.Helper()
	if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "jane")) {
		t.Errorf("credentials in %v", err)
	}
}
