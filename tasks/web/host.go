package web

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// origin is the target of a connection: the scheme, the host as the transport dials it, and the port.
type origin struct{ scheme, host, port string }

func (o origin) String() string { return o.scheme + "://" + o.address() }

// address returns the host, with its port unless it is the standard port of the scheme.
func (o origin) address() string {
	if o.port == standardPort(o.scheme) {
		return bracketed(o.host)
	}
	return net.JoinHostPort(o.host, o.port)
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

// listing is one host of Config.AllowHosts or of a Secret.
type listing struct {
	scheme string // empty for http and https
	host   string
	port   string // empty for the standard port
}

// parseListing parses "host", "host:port" and, if schemes is true, "http://host:port".
func parseListing(text string, schemes bool) (listing, error) {
	var l listing
	host := text
	if schemes {
		l.scheme = "https"
		if scheme, rest, ok := strings.Cut(text, "://"); ok {
			l.scheme, host = scheme, rest
		}
	}
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.Hostname() == "" || strings.ContainsAny(host, "*,") ||
		strings.HasSuffix(host, ":") {
		return listing{}, errHost
	}
	if l.scheme != "" && l.scheme != "http" && l.scheme != "https" {
		return listing{}, errHost
	}
	l.port = u.Port()
	l.host, err = dialled(u.Hostname())
	return l, err
}

// covers returns whether o is listed.
func (l listing) covers(o origin) bool {
	port := l.port
	if port == "" {
		port = standardPort(o.scheme)
	}
	return (l.scheme == "" || l.scheme == o.scheme) && l.host == o.host && port == o.port
}

// origin returns the only origin that the listing of a Secret names.
func (l listing) origin() origin {
	port := l.port
	if port == "" {
		port = standardPort(l.scheme)
	}
	return origin{scheme: l.scheme, host: l.host, port: port}
}

func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
