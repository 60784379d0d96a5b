package cli

import (
	"os"
	"testing"
)

// Libraries read some variables of the process by themselves.
//
//nolint:paralleltest // sets variables
func TestProcessVariablesAreTrimmed(t *testing.T) {
	for name, trimmed := range map[string]bool{
		"OTEL_EXPORTER_OTLP_ENDPOINT": true, "OTEL_EXPORTER_OTLP_HEADERS": true, "HTTPS_PROXY": true, "no_proxy": true,
		"HEADWAY_TEST_OTHER": false,
	} {
		t.Setenv(name, " http://h:1\r\n")
		trimProcess()
		if got := os.Getenv(name); (got == "http://h:1") != trimmed {
			t.Errorf("%s: %q", name, got)
		}
	}
}
