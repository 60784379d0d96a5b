package dashboard

import (
	"net"
	"net/netip"
	"time"

	"github.com/headway-go/headway/internal/calls/bounded"
)

const (
	// wrongMost is how many wrong logins an address may try in loginWindow. After that no login of it is looked at until
	// the window ends.
	wrongMost   = 20
	loginWindow = time.Minute
	// sourcesMost bounds the addresses that are remembered.
	sourcesMost = 10_000
)

// logins counts wrong logins by address. The zero value has none. Safe for concurrent use.
type logins struct {
	sources bounded.Map[netip.Prefix, tries]
}

// tries are the wrong logins of one address.
type tries struct {
	wrong int
	until time.Time // the end of the window
}

func newLogins() *logins { return &logins{bounded.Map[netip.Prefix, tries]{Most: sourcesMost}} }

// blocked returns how long no login of an address is looked at; zero if it may try.
func (l *logins) blocked(address string, now time.Time) time.Duration {
	t := l.sources.Get(sourceOf(address))
	if t.wrong < wrongMost {
		return 0
	}
	return max(0, t.until.Sub(now))
}

// failed counts a wrong login. Logged is true for the first one of a window, and for the one that ends the tries.
func (l *logins) failed(address string, now time.Time) (wrong int, logged bool) {
	l.sources.Change(sourceOf(address), func(t *tries) {
		if !now.Before(t.until) {
			*t = tries{until: now.Add(loginWindow)}
		}
		t.wrong++
		wrong, logged = t.wrong, t.wrong == 1 || t.wrong == wrongMost
	})
	return wrong, logged
}

// sourceOf is the address of a client without its port. Of IPv6 it is the network, whose addresses one client may
// choose from.
func sourceOf(address string) netip.Prefix {
	const network = 64
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{} // what has no address shares one
	}
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = network
	}
	source, _ := ip.Prefix(bits) // as many bits as there are
	return source
}
