package tracing_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/tracing"
)

func getenv(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestEnabled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing":         {},
		"endpoint":        {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, want: true},
		"traces endpoint": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x"}, want: true},
		"exporter":        {env: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, want: true},
		"none":            {env: map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"}},
		"disabled":        {env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tracing.Enabled(getenv(tc.env)); got != tc.want {
				t.Errorf("%v", got)
			}
		})
	}
}

// A span reaches the collector, with the name of the service, before stop returns.
func TestSendsSpans(t *testing.T) {
	bodies := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a short one fails below
		bodies <- r.URL.Path + " " + string(body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	defer otel.SetTracerProvider(noop.NewTracerProvider())
	env := getenv(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL})
	stop, err := tracing.Start(t.Context(), "a-service", env, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := otel.Tracer("test").Start(t.Context(), "a-span")
	span.End()
	stop()
	select {
	case got := <-bodies:
		for _, want := range []string{"/v1/traces ", "a-service", "a-span"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing in %q", want, got)
			}
		}
	default:
		t.Error("stop has not sent the span")
	}
}

// An exporter that can't send warns at once, and then once a minute.
//
//nolint:paralleltest // the handler of errors is of the whole process
func TestWarnsOfErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		env := getenv(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
		stop, err := tracing.Start(t.Context(), "a-service", env, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		defer otel.SetTracerProvider(noop.NewTracerProvider())
		for _, want := range []int{1, 1, 1, 2, 2} {
			otel.Handle(errors.New("connection refused"))
			if got := strings.Count(log.String(), "level=WARN"); got != want {
				t.Errorf("%d warnings, want %d: %s", got, want, log.String())
			}
			<-time.After(25 * time.Second)
		}
	})
}

func TestRefusesAnotherProtocol(t *testing.T) {
	t.Parallel()
	env := getenv(map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
	_, err := tracing.Start(t.Context(), "a-service", env, slog.New(slog.DiscardHandler))
	var usage *cli.UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf") {
		t.Errorf("%v", err)
	}
}
