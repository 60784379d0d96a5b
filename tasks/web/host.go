package web

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// origin is the target of a connection: the scheme, the host as the transport dials it, and the port.
type origin struct{ scheme, host, port string }

func (o origin) String() string { return o.scheme + "://" + o.address() }

// address returns the host, with its port unless it is the standard port of the scheme.
func (o origin) address() string {
	return strings.TrimSuffix(net.JoinHostPort(o.host, o.port), ":"+standardPort(o.scheme))
}

func standardPort(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

var errHost = errors.New("is not a valid host name")

// dialled returns a host in the form that the transport dials: lower-case ASCII, without a final dot. All other forms
// of a name are compared and called in this form.
func dialled(host string) (string, error) {
	host = strings.TrimSuffix(host, ".")
	if !isASCII(host) {
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", errHost
		}
		host = strings.TrimSuffix(host, ".") // a final dot may be a full stop of another script
	}
	if host == "" || !isASCII(host) {
		return "", errHost
	}
	return strings.ToLower(host), nil
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c >= 0x80 || c <= ' ' || c == 0x7f })
}

// originOf returns the target of a request to an absolute URL.
func originOf(u *url.URL) (origin, error) {
	host, err := dialled(u.Hostname())
	if err != nil {
		return origin{}, err
	}
	o := origin{scheme: u.Scheme, host: host, port: u.Port()}
	if o.port == "" {
		o.port = standardPort(o.scheme)
	}
	return o, nil
}

// originAt returns the origin of an address.
func originAt(address string) (origin, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return origin{}, errHost
	}
	return originOf(u)
}

// listed returns the origins that a host of Config.AllowHosts names: "host" on the standard ports, or "host:port". A
// host of a Secret is for https only, or begins with "http://".
func listed(host string, secret bool) (all []origin, err error) {
	schemes := []string{"http", "https"}
	if scheme, rest, ok := strings.Cut(host, "://"); secret && ok && slices.Contains(schemes, scheme) {
		schemes, host = []string{scheme}, rest
	} else if secret {
		schemes = []string{"https"}
	}
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "*,") ||
		strings.HasSuffix(host, ":") {
		return nil, errHost
	}
	for _, u.Scheme = range schemes {
		o, err := originOf(u)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// lists returns whether a list of hosts names an origin. Secret is true for the hosts of a Secret.
func lists(hosts []string, secret bool, to origin) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		origins, _ := listed(host, secret)
		return slices.Contains(origins, to)
	})
}
