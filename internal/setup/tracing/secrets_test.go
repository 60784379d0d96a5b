package tracing_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/tracing"
)

const token = "tok-5ecret-value"

// A slip in a variable of the exporter is a fault that names the variable. Neither the error nor what libraries write
// has the token.
func TestSlipsDoNotShowTheToken(t *testing.T) {
	for name, tc := range map[string]struct {
		variable, value string
		faulty          bool
	}{
		"a colon":             {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer " + token, true},
		"a colon and base64":  {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Basic " + token + "==", true},
		"the token alone":     {"OTEL_EXPORTER_OTLP_HEADERS", token, true},
		"a bad escape":        {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%2" + token, true},
		"a control character": {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%0A" + token, true},
		"two lines":           {"OTEL_EXPORTER_OTLP_HEADERS", "a=b\nAuthorization=" + token, true},
		"the second header":   {"OTEL_EXPORTER_OTLP_HEADERS", "a=b,Authorization: " + token, true},
		"of traces":           {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "Authorization: " + token, true},
		"a good header":       {"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20" + token + ", x-a = b ", false},
		"a password":          {"OTEL_EXPORTER_OTLP_ENDPOINT", "https://ann:" + token + "@otlp.invalid", true},
		"no scheme":           {"OTEL_EXPORTER_OTLP_ENDPOINT", "ann:" + token + "@otlp.invalid:4318", true},
		"a raw password":      {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://ann:%" + token + "@otlp.invalid", true},
		"a query":             {"OTEL_EXPORTER_OTLP_ENDPOINT", "https://otlp.invalid/v1?api-key=" + token, true},
		"a fragment":          {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://otlp.invalid/v1#" + token, true},
		"a header of nothing": {"OTEL_EXPORTER_OTLP_HEADERS", "a=" + token + ",", true},
		"a quoted header":     {"OTEL_EXPORTER_OTLP_HEADERS", `{"Authorization":"Bearer ` + token + `"}`, true},
		"attributes":          {"OTEL_RESOURCE_ATTRIBUTES", "key: " + token, true},
		"one slash":           {"OTEL_EXPORTER_OTLP_ENDPOINT", "https:/" + token + "@otlp.invalid", true},
		"another scheme":      {"OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://" + token + "/", true},
		"a timeout":           {"OTEL_EXPORTER_OTLP_TIMEOUT", token, true},
		"a timeout in words":  {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s", true},
		"a good timeout":      {"OTEL_EXPORTER_OTLP_TIMEOUT", "10000", false},
		"a protocol":          {"OTEL_EXPORTER_OTLP_PROTOCOL", token, true},
		"of traces alone":     {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc", true},
		"a certificate":       {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/" + token, true},
		"a key":               {"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", token, true},
		"no certificate":      {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "secrets_test.go", true},
		"a sampler":           {"OTEL_TRACES_SAMPLER", token, true},
		"a good sampler":      {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio", false},
		"a ratio":             {"OTEL_TRACES_SAMPLER_ARG", token, true},
		"a ratio in percent":  {"OTEL_TRACES_SAMPLER_ARG", "5%", true},
		"a ratio above one":   {"OTEL_TRACES_SAMPLER_ARG", "50", true},
		"a good ratio":        {"OTEL_TRACES_SAMPLER_ARG", "0.05", false},
		"a queue":             {"OTEL_BSP_MAX_QUEUE_SIZE", token, true},
		"a delay":             {"OTEL_BSP_SCHEDULE_DELAY", token, true},
		"a limit":             {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", token, true},
		"a limit of all":      {"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", token, true},
		"a good limit":        {"OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "128", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			t.Setenv(tc.variable, tc.value)
			env := map[string]string{"OTEL_TRACES_EXPORTER": "otlp", tc.variable: tc.value}
			printed := stderrOf(t, func() {
				stop, err := tracing.Start(t.Context(), "a-service", getenv(env), slog.New(slog.NewTextHandler(&log, nil)))
				defer otel.SetTracerProvider(noop.NewTracerProvider())
				var usage *cli.UsageError
				if errors.As(err, &usage) != tc.faulty || (err != nil) != tc.faulty ||
					err != nil && (!strings.HasPrefix(err.Error(), tc.variable) || strings.Contains(err.Error(), token)) {
					t.Errorf("%v", err)
				}
				if err == nil {
					stop()
				}
			})
			if printed += log.String(); strings.Contains(printed, token) {
				t.Errorf("printed: %s", printed)
			}
		})
	}
}

// stderrOf is what the process writes to standard error meanwhile, as loggers of libraries do.
func stderrOf(t *testing.T, do func()) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = write //nolint:reassign // what a library writes
	do()
	os.Stderr = before //nolint:reassign // as above
	_ = write.Close()
	text, _ := io.ReadAll(read)
	return string(text)
}

// A collector that repeats the header in its answer does not have the token logged.
//
//nolint:paralleltest // sets variables
func TestAnswersDoNotShowTheToken(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not allowed: "+r.Header.Get("Authorization")+r.URL.Path, http.StatusUnauthorized)
	}))
	defer collector.Close()
	const key = "path-5ecret-key"
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL + "/" + key,
		"OTEL_EXPORTER_OTLP_HEADERS":  "Authorization=Bearer%20" + token,
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	var log bytes.Buffer
	stop, err := tracing.Start(t.Context(), "a-service", getenv(env), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	_, span := otel.Tracer("test").Start(t.Context(), "a-span")
	span.End()
	stop()
	text := log.String()
	if !strings.Contains(text, "***") || strings.Contains(text, token) || strings.Contains(text, key) {
		t.Errorf("%s", text)
	}
}
