package loopback_test

import (
	"testing"

	"github.com/headway-go/headway/internal/text/loopback"
)

func TestHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.9.9.9:1": true, "::1": true, "[::1]": true,
		"[::1]:8080": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":8080": false, "0.0.0.0": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1": false,
		"localhost.example.com": false, "localhost.example.com:80": false, "127.0.0.1.example.com": false,
		"example.com": false, "2130706433": false, "127.1": false, "localhost:80:80": false,
	} {
		if got := loopback.Host(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}
