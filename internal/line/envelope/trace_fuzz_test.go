package envelope_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"go.opentelemetry.io/otel/trace"

	"github.com/headway-go/headway/internal/line/envelope"
)

// traceShape is the form of a traceparent, by W3C.
var traceShape = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$`)

// Whatever the headers of a task say, its trace is none, or the one that they name; what goes on to the next task is
// short, and is no baggage.
func FuzzTraceHeaders(f *testing.F) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, state := range []string{
		"", "a=1", "a=1,b=2", strings.Repeat("a=1,", 40), "a=" + strings.Repeat("x", 5000), "a=\xff",
		"a=1\r\nX: y", "=,=", "\x00",
	} {
		f.Add(good, state, "user=x")
	}
	for _, parent := range []string{
		"", "00", strings.Repeat("00-", 1000), "00-00000000000000000000000000000000-b7ad6b7169203331-01", good + "-more",
		"ff" + good[2:], "01" + good[2:] + "-x", strings.ToUpper(good), " " + good, good[:54] + "ff", good[:54] + "\xff\xff",
	} {
		f.Add(parent, "a=1", strings.Repeat("k=v,", 5000))
	}
	f.Fuzz(func(t *testing.T, parent, state, baggage string) {
		task := asynq.NewTaskWithHeaders("t", nil, map[string]string{
			"traceparent": parent, "tracestate": state, "baggage": baggage,
		})
		ctx := envelope.TraceOf(context.Background(), task)
		found := trace.SpanContextFromContext(ctx)
		next := asynq.NewTaskWithHeaders("t", nil, map[string]string{})
		envelope.WithTrace(ctx, next)
		shape := traceShape.FindStringSubmatch(parent)
		if !found.IsValid() {
			if len(next.Headers()) != 0 {
				t.Errorf("no trace becomes %q", next.Headers())
			}
			return
		}
		if shape == nil || found.TraceID().String() != shape[2] || found.SpanID().String() != shape[3] {
			t.Errorf("%q is read as %v", parent, found)
		}
		size := 0
		for name, value := range next.Headers() {
			size += len(name) + len(value)
			if name == "baggage" || strings.ContainsAny(value, "\r\n\x00") {
				t.Errorf("the next task has %s: %q", name, value)
			}
		}
		if size > 32*(256+256+2)+100 {
			t.Errorf("the next task has %d bytes of headers", size)
		}
	})
}
