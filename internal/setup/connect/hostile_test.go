package connect_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/headway-go/headway/internal/setup/connect"
)

const password = "hunter2-secret"

// malformed returns addresses that name no service.
func malformed(scheme string) []string {
	return []string{
		" ", ":", "://", "\x00", "\xff", scheme, scheme + ":", scheme + "://%zz", scheme + "://u:" + password + "@[::1",
		scheme + "://u:" + password + "@h:99999999",
		scheme + "://u:" + password + "@h:port/0", scheme + "://u:" + password + "%@h", "http://u:" + password + "@h/",
		scheme + "://u:" + password + "@h/%ff/../..?x=%zz",
		scheme + "://u:" + password + "@h\r\nX: y/", strings.Repeat(scheme+"://", 10_000),
	}
}

// A malformed address is an error at once, and the error has no password.
func TestMalformedServiceURLs(t *testing.T) {
	t.Parallel()
	for setting, open := range map[string]func(context.Context, func(string) string) error{
		"REDIS_URL": func(ctx context.Context, getenv func(string) string) error {
			_, err := connect.Redis(ctx, getenv)
			return err
		},
		"MONGODB_URI": func(ctx context.Context, getenv func(string) string) error {
			_, err := connect.Mongo(ctx, getenv, io.Discard)
			return err
		},
	} {
		for _, address := range malformed(map[string]string{"REDIS_URL": "redis", "MONGODB_URI": "mongodb"}[setting]) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // no network
			err := open(ctx, func(string) string { return address })
			var fault *connect.ServiceError
			if !errors.As(err, &fault) || fault.Setting != setting || strings.Contains(err.Error(), password) ||
				len(err.Error()) > 2000 {
				t.Errorf("%.100q: %.500v", address, err)
			}
		}
	}
}

// An address with a password is accepted or refused without it, whatever else it has. No address is dialled: the
// context has ended, and a valid address of MongoDB is for package mongostore.
func FuzzServiceURLs(f *testing.F) {
	for _, address := range append(malformed("redis"), malformed("mongodb")...) {
		f.Add(address)
	}
	for _, query := range []string{
		"tls=x", "authMechanism=X", "authMechanism=PLAIN", "authSource=" + password, "tlsCAFile=/none/" + password,
		"readPreference=x", "w=-1", "maxPoolSize=-5", "connectTimeoutMS=x", "compressors=x", "replicaSet=", "a", "a=b;c=d",
		"db=x", "read_timeout=x", "protocol=9", "skip_verify=x",
	} {
		f.Add("mongodb://u:" + password + "@h/d?" + query)
		f.Add("redis://u:" + password + "@h/0?" + query)
	}
	f.Fuzz(func(t *testing.T, address string) {
		// The name of a service is looked up for +srv. The password may be shown where it is also a host.
		if strings.Contains(address, "+srv") || address == "" {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		getenv := func(string) string { return address }
		_, err := connect.Redis(ctx, getenv)
		if err == nil {
			t.Errorf("Redis at %q answers", address)
		}
		_, invalid := connstring.ParseAndValidate(address)
		var mongo error
		if invalid != nil {
			_, mongo = connect.Mongo(ctx, getenv, io.Discard)
		}
		if invalid != nil && !errors.Is(mongo, connect.ErrInvalidURL) {
			t.Errorf("MongoDB at %q: %v", address, mongo)
		}
		for service, err := range map[string]error{"Redis": err, "MongoDB": mongo} {
			if err != nil && shows(err.Error(), address) {
				t.Errorf("%s at %q: %v", service, address, err)
			}
		}
	})
}

// shows says whether a text has the password of an address, which begins where its user ends and ends at the last @.
func shows(text, address string) bool {
	end := strings.LastIndex(address, "@")
	if end < 0 {
		return false
	}
	before, after := address[:end], address[end:]
	_, secret, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(before, "redis://"), "mongodb://"), ":")
	return len(secret) > 8 && !strings.Contains(after, secret) && strings.Contains(text, secret)
}
