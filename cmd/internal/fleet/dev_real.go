package fleet

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/auth"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/headway-go/headway/internal/calls/intake"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/loopback"
)

// devSecret is the value of every key and secret within `headway dev`.
const devSecret = "dev-without-a-key"

// confined is the environment of a process whose calls stay on this machine: services elsewhere are not set, and keys
// and secrets have no real value.
func confined(c config.Config, getenv func(string) string) func(string) string {
	return func(name string) string {
		value := getenv(name)
		_, secret := c.HTTP.Secrets[name]
		isKey := func(p config.Provider) bool { return p.Key == name }
		switch {
		case name == "MONGODB_URI":
			return mongoHere(value)
		case name == "OTEL_SDK_DISABLED" && !tracesHere(getenv):
			return "true"
		case secret, slices.ContainsFunc(c.Providers, isKey):
			return devSecret
		}
		return value
	}
}

// mongoHere is an address of MongoDB that leads to this machine alone; empty for an address that can't. A server may be
// a member of a replica set, whose other members a driver would call: it has to call the one host of the address.
func mongoHere(uri string) string {
	parsed, err := connstring.Parse(uri)                               // mongodb+srv would ask DNS for its hosts
	abroad := []string{auth.MongoDBAWS, auth.MongoDBOIDC, auth.GSSAPI} // get their credentials from another service
	switch {
	case err != nil, parsed.Scheme != connstring.SchemeMongoDB, len(parsed.Hosts) != 1, !loopback.Host(parsed.Hosts[0]),
		slices.Contains(abroad, strings.ToUpper(parsed.AuthMechanism)):
		return ""
	case parsed.DirectConnection, parsed.LoadBalanced:
		return uri
	case parsed.DirectConnectionSet:
		return ""
	}
	before, options, has := strings.Cut(uri, "?")
	if !has && !strings.Contains(strings.TrimPrefix(uri, "mongodb://"), "/") {
		before += "/"
	}
	if options != "" {
		options = "&" + options
	}
	return before + "?directConnection=true" + options
}

// tracesHere reports whether traces go to this machine, as they do by default.
func tracesHere(getenv func(string) string) bool {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if endpoint := getenv(name); endpoint != "" {
			u, err := url.Parse(endpoint)
			// net/http goes around a proxy for localhost in small letters only.
			return err == nil && loopback.Host(u.Hostname()) && !strings.ContainsFunc(u.Hostname(), unicode.IsUpper)
		}
	}
	return true
}

// devHosts answers the HTTP requests of tasks instead of their hosts. Hosts of this machine are called.
type devHosts struct{ here http.RoundTripper }

func newDevHosts() devHosts {
	here := intake.Transport()
	if t, ok := here.(*http.Transport); ok {
		t.Proxy = nil // it may be elsewhere
	}
	return devHosts{here: here}
}

// RoundTrip implements http.RoundTripper.
func (d devHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if loopback.Host(r.URL.Hostname()) {
		return d.here.RoundTrip(r)
	}
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // as a service would
		_ = r.Body.Close()
	}
	text, _ := json.Marshal(map[string]string{ // texts have no fault
		"headway_dev": "no call was made; --allow-real-calls makes it", "method": r.Method, "host": r.URL.Host,
	})
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)),
		ContentLength: int64(len(text)),
	}, nil
}

// CloseIdleConnections is for http.Client.
func (d devHosts) CloseIdleConnections() {
	if here, ok := d.here.(interface{ CloseIdleConnections() }); ok {
		here.CloseIdleConnections()
	}
}

// confinedRows say what is not done although the settings or the environment name it.
func confinedRows(c config.Config, getenv func(string) string) (rows [][]string) {
	const lifts = "; --allow-real-calls lifts that"
	if len(c.HTTP.AllowHosts) > 0 {
		rows = append(rows, []string{"hosts", "of this machine are called, others of http.allow_hosts are not" + lifts})
	}
	if n := len(c.Recurring); n > 0 {
		rows = append(rows, []string{
			"recurring", cli.Plural(n, "task is", "tasks are") + " not enqueued" + lifts,
		})
	}
	if uri := getenv("MONGODB_URI"); uri != "" && mongoHere(uri) == "" {
		rows = append(rows, []string{"MongoDB", "MONGODB_URI is not used, it is not one host of this machine" + lifts})
	}
	if !tracesHere(getenv) {
		rows = append(rows, []string{"traces", "are not sent, the collector is elsewhere" + lifts})
	}
	return rows
}
