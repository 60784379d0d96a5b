package main

import (
	"fmt"
	"strings"

	"github.com/headway-go/headway/internal/metric"
)

// wrapAt is the longest line of a page.
const wrapAt = 100

const intro = `# Metrics

Generated from the [list of metrics](../internal/metric/list.go): ` + "`go generate ./deploy/...`" + `.
[Observing](observing.md) says how to export them, and which alerts there are.

Metrics of a *process* count what one worker did: take ` + "`sum`" + ` over the fleet. Metrics of the *fleet*
are state that all processes share and each exports: take ` + "`max`" + `.
`

// page is docs/metrics.md.
func page() ([]byte, error) {
	var b strings.Builder
	b.WriteString(intro)
	group := ""
	for _, m := range metric.List() {
		if g := groupOf(m.Name); g != group {
			group = g
			fmt.Fprintf(&b, "\n## %s\n\n", strings.ToUpper(g[:1])+g[1:])
		}
		labels := "no labels"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		text := fmt.Sprintf("- `%s` (%s of the %s; %s): %s", m.Name, m.Type, m.Scope, labels, m.Help)
		b.WriteString(wrapped(text, "  ") + "\n")
	}
	return []byte(b.String()), nil
}

// groupOf is the heading of a metric.
func groupOf(name string) string {
	for _, g := range []struct{ prefix, title string }{
		{"headway_meter", "buckets"},
		{"headway_bucket", "buckets"},
		{"headway_waitlist", "waitlists"},
		{"headway_queue", "queues"},
		{"headway_task", "tasks"},
		{"headway_start", "starts and settlements"},
		{"headway_tokens", "starts and settlements"},
		{"headway_settlements", "starts and settlements"},
		{"headway_provider", "starts and settlements"},
		{"headway_syncs", "starts and settlements"},
		{"headway_store", "services"},
		{"headway_redis", "services"},
		{"headway_mongo", "services"},
	} {
		if strings.HasPrefix(name, g.prefix) {
			return g.title
		}
	}
	return "the fleet"
}

// wrapped breaks a text between words; later lines are indented.
func wrapped(text, indent string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > wrapAt:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}
