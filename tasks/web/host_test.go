package web_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/web"
)

// dials records the addresses that a transport of net/http dials, and connects to none. Tests compare these addresses
// instead of URLs.
type dials struct {
	mu    sync.Mutex
	addrs []string
}

var errNoNetwork = errors.New("no network")

func (d *dials) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.addrs = append(d.addrs, addr)
		return nil, errNoNetwork
	}}}
}

func (d *dials) taken() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	addrs := d.addrs
	d.addrs = nil
	return addrs
}

// lookAlikes are names that fold to a listed name by Unicode's rules, but are dialled as other names.
func lookAlikes() []string {
	return []string{
		"https://api.openaİ.com/", "http://api.openaİ.com/", "https://api.openaı.com/", "https://straße.example/",
		"https://σιγμας.example/", "https://xn--openai-uyd.com/", "https://api.openai.com.evil.test/",
		"https://api.openai.com%2eevil.test/",
		"https://api.openai.com\u2024evil.test/", "https://api.openai.com\u200b.evil.test/",
		"https://evil.test#.api.openai.com/", "https://[::ffff:127.0.0.1]/",
	}
}

func TestLookAlikesAreNotDialled(t *testing.T) {
	t.Parallel()
	var d dials
	hosts := []string{"api.openai.com", "strasse.example", "ΣΙΓΜΑΣ.example"}
	client := newClient(t, web.Config{
		AllowHosts: hosts, HTTPClient: d.client(),
		Secrets: map[string]web.Secret{"API_KEY": {Value: secret, Hosts: []string{"api.openai.com", "strasse.example"}}},
	})
	for _, url := range lookAlikes() {
		_, err := client.Run(t.Context(), web.Request{URL: url, Header: map[string]string{"Authorization": "${API_KEY}"}},
			nil)
		if _, refused := errors.AsType[*reservations.FieldError](err); !refused || len(d.taken()) > 0 {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A listed host is dialled, in whatever form a task or the list names it.
func TestListedHostsAreDialled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ listed, url, want string }{
		{"api.openai.com", "https://API.OpenAI.com./v1", "api.openai.com:443"},
		{"API.openai.com.", "http://api.openai.com:80/v1", "api.openai.com:80"},
		{"api.openai.com", "https://ａｐｉ。openai.com/", "api.openai.com:443"},
		{"Bücher.example", "https://bücher.example/", "xn--bcher-kva.example:443"},
		{"xn--bcher-kva.example", "https://BÜCHER.example:443/", "xn--bcher-kva.example:443"},
		{"bücher.example:8443", "https://xn--bcher-kva.example:8443/", "xn--bcher-kva.example:8443"},
		{"strasse.example", "https://straſse.example/", "strasse.example:443"},
		{"my_service:8080", "http://my_service:8080/", "my_service:8080"},
		{"[::1]:8080", "http://[::1]:8080/", "[::1]:8080"},
		{"[fe80::1]", "http://[fe80::1]/", "[fe80::1]:80"},
	} {
		var d dials
		client := newClient(t, web.Config{AllowHosts: []string{c.listed}, HTTPClient: d.client()})
		_, err := client.Run(t.Context(), web.Request{URL: c.url}, nil)
		if got := d.taken(); !slices.Equal(got, []string{c.want}) || !errors.Is(err, errNoNetwork) {
			t.Errorf("%s with %s listed: dialled %q, %v", c.url, c.listed, got, err)
		}
	}
}

// A secret is sent to its own hosts only, and over http only if the list says http.
func TestSecretsStayWithTheirHosts(t *testing.T) {
	t.Parallel()
	var d dials
	config := web.Config{
		AllowHosts: []string{"a.example", "b.example", "c.example:8080", "c.example"}, HTTPClient: d.client(),
		Secrets: map[string]web.Secret{
			"A": {Value: secret, Hosts: []string{"a.example"}},
			"C": {Value: secret, Hosts: []string{"http://c.example:8080", "c.example"}},
		},
	}
	client := newClient(t, config)
	for _, c := range []struct {
		url, secret string
		sent        bool
	}{
		{"https://a.example/", "A", true},
		{"https://A.example.:443/", "A", true},
		{"http://a.example/", "A", false},
		{"https://b.example/", "A", false},
		{"http://b.example/", "A", false},
		{"https://c.example/", "A", false},
		{"http://c.example:8080/", "C", true},
		{"https://c.example:8080/", "C", false},
		{"https://c.example/", "C", true},
		{"http://c.example/", "C", false},
		{"https://a.example/", "C", false},
		{"https://a.example/", "", true},
		{"http://a.example/", "", true},
	} {
		r := web.Request{URL: c.url}
		if c.secret != "" {
			r.Header = map[string]string{"X-Key": "${" + c.secret + "}"}
		}
		if _, refused := errors.AsType[*reservations.FieldError](config.Check(r)); refused == c.sent {
			t.Errorf("%s with %s: refused by Check: %v", c.url, c.secret, refused)
		}
		_, err := client.Run(t.Context(), r, nil)
		if dialled := len(d.taken()) > 0; dialled != c.sent || err == nil {
			t.Errorf("%s with %s: dialled: %v, %v", c.url, c.secret, dialled, err)
		}
	}
}

func TestFaultsOfSecrets(t *testing.T) {
	t.Parallel()
	for field, secrets := range map[string]map[string]web.Secret{
		"secrets":   {"${A}": {Hosts: []string{"a.example"}}},
		"secrets.A": {"A": {}},
		"secrets.B": {"B": {Hosts: []string{"b.example"}}},
		"secrets.C": {"C": {Hosts: []string{"ftp://a.example"}}},
		"secrets.D": {"D": {Hosts: []string{"https://a.example/path"}}},
		"secrets.E": {"E": {Hosts: []string{"a.example:8080"}}},
	} {
		_, err := web.NewClient(web.Config{AllowHosts: []string{"a.example"}, Secrets: secrets})
		if fault, ok := errors.AsType[*reservations.FieldError](err); !ok || fault.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Any payload is refused, or its request goes to a listed host and each of its headers has one line.
func FuzzRequest(f *testing.F) {
	for _, c := range faults {
		for name, value := range c.request.Header {
			f.Add(c.request.Method, c.request.URL, name, value)
		}
		f.Add(c.request.Method, c.request.URL, "X-A", "1")
	}
	for _, url := range lookAlikes() {
		f.Add("GET", url, "Authorization", "Bearer ${API_KEY}")
	}
	allowed := []string{"api.openai.com:80", "api.openai.com:443", "xn--bcher-kva.example:80", "xn--bcher-kva.example:443"}
	f.Fuzz(func(t *testing.T, method, url, name, value string) {
		var d dials
		seen := &lines{next: d.client().Transport}
		client := newClient(t, web.Config{
			AllowHosts: []string{"api.openai.com", "bücher.example"}, HTTPClient: &http.Client{Transport: seen},
			Secrets: map[string]web.Secret{"API_KEY": {Value: secret, Hosts: []string{"api.openai.com"}}},
		})
		_, err := client.Run(t.Context(), web.Request{Method: method, URL: url, Header: map[string]string{name: value}}, nil)
		for _, addr := range d.taken() {
			if !slices.Contains(allowed, addr) || seen.secret && addr != "api.openai.com:443" {
				t.Errorf("%q dialled %q, with the secret: %v", url, addr, seen.secret)
			}
		}
		if seen.broken != "" {
			t.Errorf("header %q", seen.broken)
		}
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
	})
}

// lines is a transport that checks the headers of requests.
type lines struct {
	next   http.RoundTripper
	broken string
	secret bool
}

func (l *lines) RoundTrip(r *http.Request) (*http.Response, error) {
	for name, values := range r.Header {
		text := name + strings.Join(values, "")
		if strings.ContainsAny(text, "\r\n\x00") {
			l.broken = text
		}
		l.secret = l.secret || strings.Contains(text, secret)
	}
	return l.next.RoundTrip(r)
}
