package e2e_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mongoURI returns uri with another database, and with another host if host is not empty. Credentials and authSource
// stay.
func mongoURI(t *testing.T, uri, database, host string) string {
	t.Helper()
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		t.Fatal("MONGODB_URI is no address")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, old, _ := strings.Cut(rest, "/")
	user := ""
	if i := strings.LastIndex(hosts, "@"); i >= 0 {
		user, hosts = hosts[:i+1], hosts[i+1:]
	}
	var parameters []string
	if query != "" {
		parameters = append(parameters, query)
	}
	if user != "" && !strings.Contains(query, "authSource") {
		if old == "" {
			old = "admin"
		}
		parameters = append(parameters, "authSource="+old)
	}
	if host != "" {
		scheme, hosts = "mongodb", host
		parameters = append(parameters, "directConnection=true")
	}
	return scheme + "://" + user + hosts + "/" + database + "?" + strings.Join(parameters, "&")
}

// mongoHost returns the first host of the server.
func mongoHost(t *testing.T, uri string) string {
	t.Helper()
	hosts := options.Client().ApplyURI(uri).Hosts
	if len(hosts) == 0 {
		t.Fatal("MONGODB_URI names no host")
	}
	return hosts[0]
}
