package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/headway-go/headway/tasks/web"
)

// dialledBy returns what net/http itself dials for a URL, without a final dot of the host and in small letters.
func dialledBy(t *testing.T, url string) string {
	t.Helper()
	var d dials
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return ""
	}
	if answer, err := d.client().Do(r); err == nil {
		_ = answer.Body.Close()
	}
	addrs := d.taken()
	if len(addrs) == 0 {
		return ""
	}
	return strings.ToLower(strings.Replace(addrs[0], ".:", ":", 1))
}

// A listed host lets tasks call what net/http dials for that text as a URL, and no other address. So does a host of a
// secret. A list that NewClient refuses is not served.
func FuzzListings(f *testing.F) {
	for _, host := range []string{
		"api.openai.com", "a.example:8443", "API.example.", "bücher.example", "[::1]:8080", "[fe80::1%25eth0]", "127.1",
		"user@a.example", "a.example/path", "a.example?x", "a.example#x", "a.example:", "a.example:0", "a.example:00443",
		"*.example", "a.example,b.example", "http://a.example", "a\tb", "a.example\\@b", "%61.example", "a。example",
		"xn--bcher-kva.example", "straſse.example", "0x7f.1", "a..example", "-a.example", "a_b", "a.example:+80",
	} {
		f.Add(host, host, "https://"+host+"/")
		f.Add(host, "http://"+host, "http://"+host+"/")
		f.Add("a.example", "a.example", "https://"+host+"/")
		f.Add(host, host, "https://a.example/")
	}
	f.Fuzz(func(t *testing.T, listed, secretHost, url string) {
		var d dials
		seen := &lines{next: d.client().Transport}
		config := web.Config{
			AllowHosts: []string{listed}, HTTPClient: &http.Client{Transport: seen},
			Secrets: map[string]web.Secret{"KEY": {Value: secret, Hosts: []string{secretHost}}},
		}
		client, err := web.NewClient(config)
		if err != nil {
			config.Secrets = nil
			if client, err = web.NewClient(config); err != nil {
				return
			}
		}
		allowed := []string{dialledBy(t, "https://"+listed), dialledBy(t, "http://"+listed)}
		for _, header := range []map[string]string{nil, {"X-Key": "${KEY}"}} {
			seen.secret = false
			_, _ = client.Run(t.Context(), web.Request{URL: url, Header: header}, nil)
			for _, addr := range d.taken() {
				if !slices.Contains(allowed, addr) {
					t.Errorf("%q with %q listed dialled %q, want one of %q", url, listed, addr, allowed)
				}
				if !seen.secret {
					continue
				}
				of := secretHost
				if !strings.Contains(of, "://") {
					of = "https://" + of
				}
				if want := dialledBy(t, of); addr != want || strings.HasPrefix(of, "https:") != strings.HasPrefix(
					strings.ToLower(url), "https:") {
					t.Errorf("%q sent the secret of %q to %q, want %q", url, secretHost, addr, want)
				}
			}
		}
	})
}
