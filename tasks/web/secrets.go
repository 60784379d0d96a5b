package web

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/headway-go/headway/internal/api/httpcall"
)

// Secret is a value that a worker may send for tasks, and the hosts that may receive it.
type Secret struct {
	// Value is sent in place of ${NAME}. It may be empty if requests are only checked.
	Value string
	// Hosts may receive the value. Each is one of Config.AllowHosts: "host" or "host:port" over https, and over http
	// only as "http://host:port".
	Hosts []string
}

// variable has no small letters, so that a secret in the place of its name is refused, and not printed.
var variable = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,99}$`)

// checkSecret reports the faults of a listed secret.
func (c Config) checkSecret(name string, fault func(field, format string, args ...any)) {
	field := "secrets." + name
	if !variable.MatchString(name) {
		fault("secrets", "entry %d must be the name of an environment variable, in capital letters, and not the secret "+
			"itself", slices.Index(sorted(c.Secrets), name)+1)
		return
	}
	if problem := httpcall.Sendable(c.Secrets[name].Value); problem != "" {
		fault(field, "its value %s", problem)
	}
	hosts := c.Secrets[name].Hosts
	if len(hosts) == 0 {
		fault(field, "lists no host for the secret")
	}
	for i, host := range hosts {
		switch origins, err := listed(host, true); {
		case err != nil:
			fault(field, "host %d must be a host or host:port for https, or begin with http://", i+1)
		case !lists(c.AllowHosts, false, origins[0]):
			fault(field, "host %d is not in allow_hosts", i+1)
		}
	}
}

// header returns the headers for an origin, with secrets filled in, and whether there are any secrets.
func (c Config) header(r Request, to origin) (header http.Header, secret bool, err error) {
	header = http.Header{}
	for _, name := range sorted(r.Header) {
		value, found, err := c.fill(name, r.Header[name], to)
		if err != nil {
			return nil, false, err
		}
		header.Set(name, value)
		secret = secret || found
	}
	return header, secret, nil
}

// fill replaces each ${NAME} in the value of a header. It does not replace ${NAME} inside of secrets.
func (c Config) fill(header, value string, to origin) (filled string, secret bool, err error) {
	var b strings.Builder
	for rest := value; ; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return b.String(), secret, nil
		}
		name, tail, closed := strings.Cut(after, "}")
		fault := func(format string, args ...any) (string, bool, error) {
			return "", false, unsendable(fmt.Sprintf("header.%.60s", header), format, args...)
		}
		if !closed {
			return fault("has a ${ without a }")
		}
		s, ok := c.Secrets[name]
		switch {
		case !ok:
			return fault("wants the secret %.60q, which is not listed under http.secrets", name)
		case !lists(s.Hosts, true, to):
			return fault("wants the secret %.60q, which is not listed for %.200s under http.secrets", name, to)
		case !httpguts.ValidHeaderFieldValue(s.Value):
			return fault("wants the secret %.60q, which has a control character", name)
		}
		b.WriteString(s.Value)
		secret = true
		rest = tail
	}
}
