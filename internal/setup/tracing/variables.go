package tracing

import (
	"encoding/pem"
	"errors"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"github.com/headway-go/headway/internal/setup/cli"
)

// variable is what a variable of OpenTelemetry has to be. The SDK reads the variables itself. What it can't use it
// prints, and then it goes by its default.
type variable struct {
	names string // separated by spaces
	check func(value string) error
}

const (
	endpoints = "OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	headers   = "OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS"
)

// variables are the ones that can have a fault.
func variables() []variable {
	return []variable{
		{endpoints, checkEndpoint},
		{headers, checkHeaders},
		{"OTEL_EXPORTER_OTLP_PROTOCOL OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", checkProtocol},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE " +
			"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE " +
			"OTEL_EXPORTER_OTLP_CLIENT_KEY OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", checkFile},
		{"OTEL_EXPORTER_OTLP_TIMEOUT OTEL_EXPORTER_OTLP_TRACES_TIMEOUT " +
			"OTEL_BSP_SCHEDULE_DELAY OTEL_BSP_EXPORT_TIMEOUT", checkMilliseconds},
		{"OTEL_BSP_MAX_QUEUE_SIZE OTEL_BSP_MAX_EXPORT_BATCH_SIZE " +
			"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_ATTRIBUTE_COUNT_LIMIT " +
			"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT OTEL_SPAN_EVENT_COUNT_LIMIT " +
			"OTEL_SPAN_LINK_COUNT_LIMIT OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", checkNumber},
		{"OTEL_TRACES_SAMPLER", checkSampler},
		{"OTEL_TRACES_SAMPLER_ARG", checkRatio},
	}
}

// check returns the first fault of the variables. A fault has the name of the variable, and never its value: that may
// be a secret in the wrong place.
func check(getenv func(string) string) error {
	for _, v := range variables() {
		for name := range strings.FieldsSeq(v.names) {
			if err := cli.CheckVariable(getenv, name); err != nil {
				return err
			}
			if value := getenv(name); value != "" {
				if err := v.check(value); err != nil {
					return cli.Usage("%s %w", name, err)
				}
			}
		}
	}
	return nil
}

func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return errors.New("is not an address: it must look like https://host:4318")
	case u.User != nil:
		return errors.New("has a user, which the exporter does not send: set OTEL_EXPORTER_OTLP_HEADERS")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a query or a fragment, which the exporter does not send: set OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}

func checkHeaders(value string) error {
	for i, entry := range entries(value) {
		key, value, found := strings.Cut(entry, "=")
		plain, err := url.PathUnescape(value)
		problem := ""
		switch {
		case !found:
			problem = "has no ="
		case !httpguts.ValidHeaderFieldName(strings.TrimSpace(key)):
			problem = "has a name that no header can have"
		case err != nil:
			problem = "has a % in its value that is no %XX"
		case strings.ContainsFunc(plain, unicode.IsControl):
			problem = "has a control character in its value"
		}
		if problem != "" {
			return errors.New("must look like Authorization=Bearer%20TOKEN, with commas between headers: header " +
				strconv.Itoa(i+1) + " " + problem)
		}
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

func checkProtocol(value string) error {
	if value != "http/protobuf" {
		return errors.New("must be http/protobuf, which collectors serve on port 4318")
	}
	return nil
}

func checkFile(name string) error {
	text, err := os.ReadFile(name) //nolint:gosec // the exporter reads it
	if err == nil {
		if block, _ := pem.Decode(text); block != nil {
			return nil
		}
	}
	return errors.New("must be the name of a PEM file that can be read")
}

func checkMilliseconds(value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 0 {
		return errors.New("must be a number of milliseconds, e.g. 10000")
	}
	return nil
}

func checkNumber(value string) error {
	if _, err := strconv.Atoi(value); err != nil {
		return errors.New("must be a whole number, e.g. 128")
	}
	return nil
}

// samplers are the ones that the SDK has.
func samplers() []string {
	return []string{
		"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
		"parentbased_traceidratio",
	}
}

func checkSampler(value string) error {
	if !slices.Contains(samplers(), strings.ToLower(value)) {
		return errors.New("must be one of " + strings.Join(samplers(), ", "))
	}
	return nil
}

func checkRatio(value string) error {
	if n, err := strconv.ParseFloat(value, 64); err != nil || !(n >= 0 && n <= 1) {
		return errors.New("must be a number from 0 to 1, e.g. 0.05")
	}
	return nil
}
