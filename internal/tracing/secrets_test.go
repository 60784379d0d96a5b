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

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/tracing"
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
		"one slash":           {"OTEL_EXPORTER_OTLP_ENDPOINT", "https:/" + token + "@otlp.invalid", true},
		"another scheme":      {"OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://" + token + "/", true},
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
		http.Error(w, "not allowed: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	defer collector.Close()
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20" + token,
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
	if text := log.String(); !strings.Contains(text, "***") || strings.Contains(text, token) {
		t.Errorf("%s", text)
	}
}
