package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Secret is a value that tasks may have a worker send, and where to.
type Secret struct {
	// Value is what is sent. It may be empty where requests are only checked.
	Value string
	// Hosts are where it may be sent, each one of Config.AllowHosts: "host" or "host:port" over https, and over http only
	// as "http://host:port".
	Hosts []string
}

// checkSecret finds the faults of a listed secret.
func (c Config) checkSecret(name string, fault func(field, format string, args ...any)) {
	field := "secrets." + name
	if name == "" || strings.ContainsAny(name, "${}= \t") {
		fault("secrets", "%q must be the name of an environment variable", name)
		return
	}
	hosts := c.Secrets[name].Hosts
	if len(hosts) == 0 {
		fault(field, "lists no host that the secret may be sent to")
	}
	for _, host := range hosts {
		switch l, err := parseListing(host, true); {
		case err != nil:
			fault(field, "%q must be a host or host:port for https, or begin with http://", host)
		case !c.allows(l.origin()):
			fault(field, "%q is none of allow_hosts", host)
		}
	}
}

// sendable says whether the secret may be sent to an origin.
func (s Secret) sendable(to origin) bool {
	return slices.ContainsFunc(s.Hosts, func(text string) bool {
		l, err := parseListing(text, true)
		return err == nil && l.covers(to)
	})
}

// header is what is sent to an origin, with its secrets filled in, and whether there are any.
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

// fill replaces each ${NAME} in the value of a header. What a secret holds is not looked at again.
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
			return "", false, &RequestError{Field: fmt.Sprintf("header.%.60s", header), Problem: fmt.Sprintf(format, args...)}
		}
		if !closed {
			return fault("has a ${ without its }")
		}
		s, ok := c.Secrets[name]
		switch {
		case !ok:
			return fault("wants the secret %.60q, which is not one that workers may send: list it under http.secrets", name)
		case !s.sendable(to):
			return fault("wants the secret %.60q, which workers do not send to %.200s: list that under http.secrets", name, to)
		case !isValue(s.Value):
			return fault("wants the secret %.60q, which has a control character", name)
		}
		b.WriteString(s.Value)
		secret = true
		rest = tail
	}
}
