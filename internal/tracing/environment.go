package tracing

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/redact"
)

// endpoints and headers are the variables that may hold secrets. The exporter reads them itself; what it can't use it
// prints or ignores.
func endpoints() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
}

func headers() []string {
	return []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"}
}

// check returns the first fault of the variables, without their values.
func check(getenv func(string) string) error {
	for _, name := range slices.Concat(endpoints(), headers()) {
		if err := cli.CheckVariable(getenv, name); err != nil {
			return err
		}
	}
	for _, name := range endpoints() {
		if err := checkEndpoint(getenv(name)); err != nil {
			return cli.Usage("%s %w", name, err)
		}
	}
	for _, name := range headers() {
		for i, entry := range entries(getenv(name)) {
			if err := checkHeader(entry); err != nil {
				return cli.Usage("%s: header %d %w: it must look like Authorization=Bearer%%20TOKEN, with commas between "+
					"headers", name, i+1, err)
			}
		}
	}
	return nil
}

func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case endpoint == "":
		return nil
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return errors.New("is not an address: it must look like https://host:4318")
	case u.User != nil:
		return errors.New("has a user, which the exporter does not send: set OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

func checkHeader(entry string) error {
	key, value, found := strings.Cut(entry, "=")
	plain, err := url.PathUnescape(value)
	switch {
	case !found:
		return errors.New("has no =")
	case !httpguts.ValidHeaderFieldName(strings.TrimSpace(key)):
		return errors.New("has a name that no header can have")
	case err != nil:
		return errors.New("has a % in its value that is no %XX")
	case !httpguts.ValidHeaderFieldValue(strings.TrimSpace(plain)):
		return errors.New("has a control character in its value")
	}
	return nil
}

// entries are the headers in a variable, with their names.
func entries(value string) []string {
	if value == "" {
		return nil
	}
	return strings.Split(value, ",")
}

// secrets are the values of the headers, and whatever the addresses of the collector and of proxies have before their
// host.
func secrets(getenv func(string) string) redact.Secrets {
	values := redact.Proxies()
	for _, name := range headers() {
		for _, entry := range entries(getenv(name)) {
			_, value, found := strings.Cut(entry, "=")
			if !found {
				value = entry
			}
			values = append(values, value)
			if plain, err := url.PathUnescape(value); err == nil {
				values = append(values, plain)
			}
		}
	}
	for _, name := range endpoints() {
		values = append(values, redact.Userinfo(getenv(name))...)
	}
	return redact.New(values...)
}
