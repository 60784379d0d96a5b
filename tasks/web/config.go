package web

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	// TimeoutDefault bounds one call.
	TimeoutDefault = time.Minute
	// MaxBodyDefault bounds the body of an answer, in bytes.
	MaxBodyDefault = 8 << 20
	// maxHeader bounds the headers of an answer, in bytes.
	maxHeader = 1 << 20
)

// Config says what a Client may do.
type Config struct {
	// AllowHosts are the hosts that may be called, "api.example.com" (on the port of its scheme) or "api.example.com:8443". None means
	// that nothing is called.
	AllowHosts []string
	// Secrets returns what ${NAME} in the value of a header stands for; not ok for a name that tasks must not use. Nil knows none.
	Secrets func(name string) (value string, ok bool)
	// Timeout bounds one call. Defaults to TimeoutDefault.
	Timeout time.Duration
	// MaxBody bounds the body of an answer, in bytes, unpacked. Defaults to MaxBodyDefault.
	MaxBody int64
	// HTTPClient makes the calls. Its CheckRedirect and Jar are not used. Defaults to one of its own.
	HTTPClient *http.Client
}

// Validate joins every fault, each a *reservations.FieldError.
func (c Config) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	for _, host := range c.AllowHosts {
		u, err := url.Parse("http://" + host)
		if err != nil || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "*,") || strings.HasSuffix(host, ":") {
			fault("allow_hosts", "%q must be a host, or host:port", host)
		}
	}
	if c.Timeout < 0 {
		fault("timeout", "%v must not be negative", c.Timeout)
	}
	if c.MaxBody < 0 {
		fault("max_body", "%d must not be negative", c.MaxBody)
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = TimeoutDefault
	}
	if c.MaxBody == 0 {
		c.MaxBody = MaxBodyDefault
	}
	if c.Secrets == nil {
		c.Secrets = noSecrets
	}
	own := http.Client{}
	if c.HTTPClient != nil {
		own.Transport = c.HTTPClient.Transport
	} else if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		transport := standard.Clone()
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.MaxResponseHeaderBytes = 0, 1000, maxHeader
		own.Transport = transport
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.HTTPClient = &own
	c.AllowHosts = slices.Clone(c.AllowHosts)
	return c
}

// Check says why workers with these settings never send the request: it is faulty, its host is not listed, or a header names a secret that Secrets does
// not know, whose value may be empty here. The error is a *RequestError, for a host one that matches ErrHostNotAllowed.
func (c Config) Check(r Request) error {
	if _, err := c.target(r); err != nil {
		return err
	}
	if c.Secrets == nil {
		c.Secrets = noSecrets
	}
	_, _, err := c.header(r)
	return err
}

// target is where a request goes that is well formed and may be sent.
func (c Config) target(r Request) (*url.URL, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	target, err := r.target()
	if err != nil {
		return nil, err
	}
	if !c.allows(target) {
		return nil, &RequestError{
			Field: "url", Err: ErrHostNotAllowed,
			Problem: fmt.Sprintf("host %.200q is not one that workers may call: list it under http.allow_hosts", hostOf(target)),
		}
	}
	return target, nil
}

// allows says whether the host of a URL is listed.
func (c Config) allows(u *url.URL) bool {
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	standard := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if port == "" {
		port = standard
	}
	for _, allowed := range c.AllowHosts {
		a, err := url.Parse("http://" + allowed)
		if err != nil || !strings.EqualFold(strings.TrimSuffix(a.Hostname(), "."), host) {
			continue
		}
		if a.Port() == port || a.Port() == "" && port == standard {
			return true
		}
	}
	return false
}

// hostOf names what would have to be listed.
func hostOf(u *url.URL) string {
	if u.Port() == "" {
		return u.Hostname()
	}
	return net.JoinHostPort(u.Hostname(), u.Port())
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
