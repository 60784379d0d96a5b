// Package loopback says which names are this machine.
package loopback

import (
	"net"
	"strings"
)

// Host says whether a host, with or without a port, is this machine: localhost in any case, or an IP address of
// loopback, also in brackets. No name is looked up. An empty host is none: to listen there is to listen everywhere.
func Host(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
