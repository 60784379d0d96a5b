package connect

import (
	"slices"
	"testing"
)

// Each part of an address of several hosts has its place: hosts with their usual ports, login, TLS, and options.
func TestAddressesOfSeveralHosts(t *testing.T) {
	t.Parallel()
	s, err := severalOf("rediss+sentinel://u:p%40ss@h1:1,h2,[::1]:3/main/7?sentinel_username=a&sentinel_password=b&" +
		"read_timeout=7s&skip_verify=true")
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.sentinel()
	if err != nil {
		t.Fatal(err)
	}
	if f.MasterName != "main" || f.DB != 7 || f.Username != "u" || f.Password != "p@ss" || f.SentinelUsername != "a" ||
		f.SentinelPassword != "b" || f.ReadTimeout.Seconds() != 7 ||
		!slices.Equal(f.SentinelAddrs, []string{"h1:1", "h2:26379", "[::1]:3"}) {
		t.Errorf("%+v", f)
	}
	if f.TLSConfig == nil || f.TLSConfig.ServerName != "" || !f.TLSConfig.InsecureSkipVerify {
		t.Errorf("the certificate of each host must have its own name: %+v", f.TLSConfig)
	}
	if s, err = severalOf("rediss+cluster://:p@h1,h2:7001/?pool_size=3"); err != nil {
		t.Fatal(err)
	}
	c, err := s.nodes()
	if err != nil {
		t.Fatal(err)
	}
	if c.Password != "p" || c.PoolSize != 3 || !slices.Equal(c.Addrs, []string{"h1:6379", "h2:7001"}) ||
		c.TLSConfig == nil || c.TLSConfig.ServerName != "" || c.TLSConfig.InsecureSkipVerify {
		t.Errorf("%+v", c)
	}
}
