package web

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/text/redact"
	"github.com/headway-go/headway/reservations"
)

const (
	// TimeoutDefault bounds one call.
	TimeoutDefault = time.Minute
	// MaxBodyDefault bounds the body of an answer, in bytes.
	MaxBodyDefault = 8 << 20
)

// Config bounds what a Client does.
type Config struct {
	// AllowHosts are the hosts that the client may call, "api.example.com" (on the port of its scheme) or
	// "api.example.com:8443". Without any, the client calls nothing. A name with non-ASCII letters means its ASCII
	// form, which is dialled.
	AllowHosts []string
	// Secrets are the values of ${NAME} in headers, by name: capital letters, digits and "_".
	Secrets map[string]Secret
	// Providers are the addresses of services, by the limits that their calls take from: "https://api.example.com/v1". A
	// refusal stops the limit of its task only if the call went to that host; otherwise the task alone waits. A limit that
	// is not named is stopped by any host.
	Providers map[string]string
	// Timeout bounds one call. Defaults to TimeoutDefault.
	Timeout time.Duration
	// MaxBody bounds the body of an answer, in bytes, unpacked. Defaults to MaxBodyDefault.
	MaxBody int64
	// Memory is for Headway's commands, whose clients share a budget. Programs leave it out: then the answers that the
	// client holds at once have a budget of 256 MB.
	Memory *intake.Budget
	// HTTPClient makes the calls. Its CheckRedirect and Jar are not used. Defaults to a new client.
	HTTPClient *http.Client
}

// validate joins all faults, each a *reservations.FieldError. No text has what was written for a host or a name: that
// may be an address with a password, or a secret.
func (c Config) validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	for i, host := range c.AllowHosts {
		if _, err := listed(host, false); err != nil {
			fault("allow_hosts", "entry %d must be a host or host:port, without a scheme, a user and a path", i+1)
		}
	}
	for _, name := range sorted(c.Secrets) {
		c.checkSecret(name, fault)
	}
	for _, limit := range sorted(c.Providers) {
		if _, err := originAt(c.Providers[limit]); err != nil {
			fault("providers."+limit, "must be an address with http:// or https://")
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
	c.Timeout, c.MaxBody = cmp.Or(c.Timeout, TimeoutDefault), cmp.Or(c.MaxBody, MaxBodyDefault)
	if c.Memory == nil {
		c.Memory = intake.New(0)
	}
	last := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own := &http.Client{CheckRedirect: last, Transport: intake.Transport()}
	if c.HTTPClient != nil {
		own.Transport = c.HTTPClient.Transport
	}
	c.HTTPClient = own
	c.AllowHosts, c.Secrets = slices.Clone(c.AllowHosts), maps.Clone(c.Secrets)
	c.Providers = maps.Clone(c.Providers)
	return c
}

// Check returns an error if workers with these settings never send the request: because it is invalid, its host is not
// listed, or a header names a secret that is not listed for that host. The error wraps a *reservations.FieldError with
// the field of the request, e.g. "url" or "header.X-Name". For a host it matches ErrHostNotAllowed, and the request has
// no other fault but of its secrets. The values of secrets may be empty here.
func (c Config) Check(r Request) error {
	_, to, err := c.target(r)
	if err == nil {
		_, _, err = c.header(r, to)
	}
	return err
}

// target returns the URL of a valid and allowed request, with its host as it is dialled, and its origin.
func (c Config) target(r Request) (*url.URL, origin, error) {
	if err := r.validate(); err != nil {
		return nil, origin{}, err
	}
	target, to, err := r.target()
	if err != nil {
		return nil, origin{}, err
	}
	if !lists(c.AllowHosts, false, to) {
		const problem = "must be listed under http.allow_hosts"
		name := fmt.Sprintf("host %.200q ", to.address())
		if strings.Contains(r.URL, "@") && target.Port() != "" { // it may be a user and a password that is not escaped
			name = "its host "
		}
		return nil, origin{}, fmt.Errorf("%w (%w)", unsendable("url", "%s", name+problem), ErrHostNotAllowed)
	}
	target.Host = to.address()
	return target, to, nil
}

// elsewhere says whether a call went to another service than that of its last charge's limit.
func (c Config) elsewhere(r Request, to origin) bool {
	if len(r.Taken) == 0 {
		return false
	}
	address, named := c.Providers[r.Taken[len(r.Taken)-1].Limit]
	provider, err := originAt(address)
	return named && err == nil && provider != to
}

// redacting returns the values of all secrets, also of proxies, to remove them from texts.
func (c Config) redacting() redact.Secrets {
	values := redact.Proxies()
	for _, secret := range c.Secrets {
		values = append(values, secret.Value)
	}
	return redact.New(values...)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
