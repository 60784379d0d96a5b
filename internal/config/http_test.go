package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/config"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {requests: 1/s}}}\nhttp:\n  allow_hosts: [api.example.com, \"127.0.0.1:8080\"]\n  secrets: [API_KEY]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := config.HTTP{AllowHosts: []string{"api.example.com", "127.0.0.1:8080"}, Secrets: []string{"API_KEY"}}
	if diff := cmp.Diff(want, c.HTTP); diff != "" {
		t.Error(diff)
	}
	_, err = config.Parse([]byte("http: {allow_hosts: [\"https://a\"], secrets: [\"${A}\"], allow: 1}"))
	for _, field := range []string{"http.allow_hosts", "http.secrets", "http"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") && !strings.Contains(err.Error(), field+" ") {
			t.Errorf("no fault at %s: %v", field, err)
		}
	}
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {requests: 1/s}}}\nestimates: {learn: [a], quantile: 0.5}\n"))
	if diff := cmp.Diff(config.Estimates{Learn: []string{"a"}, Quantile: 0.5}, c.Estimates); err != nil || diff != "" {
		t.Error(err, diff)
	}
	_, err = config.Parse([]byte("limits: {a: {meters: {requests: 1/s}}}\nestimates: {learn: [b], quantile: 2}\n"))
	if err == nil || !strings.Contains(err.Error(), "estimates.learn: ") && !strings.Contains(err.Error(), "estimates.learn ") || !strings.Contains(err.Error(), "estimates.quantile") {
		t.Errorf("got %v", err)
	}
}
