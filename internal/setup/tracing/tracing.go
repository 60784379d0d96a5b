// Package tracing sends the traces of a command to an OpenTelemetry collector, as the standard OTEL_ environment
// variables say. Without them it does nothing.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/headway-go/headway/internal/calls/seldom"
	"github.com/headway-go/headway/internal/setup/cli"
)

// flushTimeout bounds how long a command that ends waits for its last spans to be sent.
const flushTimeout = 5 * time.Second

// errorLength bounds the text of an error, in bytes: it may have the answer of the collector.
const errorLength = 2000

// errAttributes refuses attributes that can't be read.
var errAttributes = errors.New("must look like deployment.environment=production, with commas between attributes")

// Enabled says whether the environment asks for traces: an endpoint or the exporter otlp is set, and nothing turns
// them off.
func Enabled(getenv func(string) string) bool {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if getenv("OTEL_SDK_DISABLED") == "true" || exporter == "none" {
		return false
	}
	return exporter == "otlp" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// Start sets the global provider of tracers and returns stop, which sends the last spans. The service has this name
// unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has another. The exporter and the sampler read their variables
// from the environment of the process. A variable that they can't use is a *cli.UsageError with its name. Of the errors
// of the exporter, one a minute is logged as a warning, others at debug level. No error or line of the log has a value
// of a header, or one that can't be used.
func Start(
	ctx context.Context, service string, getenv func(string) string, log *slog.Logger,
) (stop func(), err error) {
	if !Enabled(getenv) {
		return func() {}, nil
	}
	if err = check(getenv); err != nil {
		return nil, err
	}
	hidden := secrets(getenv)
	otel.SetLogger(funcr.New(func(_, text string) {
		log.LogAttrs(ctx, slog.LevelWarn, "the exporter of traces: "+hidden.Text(text))
	}, funcr.Options{Verbosity: 1})) // 1 has warnings
	var warning seldom.Warning
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		level := slog.LevelDebug
		if warning.Due(time.Now()) {
			level = slog.LevelWarn
		}
		log.LogAttrs(ctx, level, "traces are not sent; further errors are logged at debug level for a minute",
			slog.Any("error", hidden.Error(err, errorLength)))
	}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", hidden.Error(err, errorLength))
	}
	named, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(service)), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, cli.Usage("OTEL_RESOURCE_ATTRIBUTES %w", errAttributes) // err has what was written there
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(named))
	otel.SetTracerProvider(provider)
	log.LogAttrs(ctx, slog.LevelInfo, "traces are sent")
	return func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		_ = provider.Shutdown(last) // the error handler has logged it
	}, nil
}
