package cli_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
)

// A duration in a JSON log has its unit in its name; one in a text log has it in the value.
func TestDurationsOfLogs(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"json": `"task":{"wait_seconds":1.5}}`, "text": "task.wait=1.5s\n",
	} {
		var out bytes.Buffer
		logger, _, err := cli.NewLogger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("ends", slog.Group("task", slog.Duration("wait", 1500*time.Millisecond)))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
}
