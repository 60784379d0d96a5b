package connect_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/connect"
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

func FuzzServiceURLs(f *testing.F) {
	for _, address := range append(malformed("redis"), malformed("mongodb")...) {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if strings.Contains(address, "+srv") || address == "" {
			return // needs the network
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		getenv := func(string) string { return address }
		if _, err := connect.Redis(ctx, getenv); err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("Redis at %q: %v", address, err)
		}
	})
}
