package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/setup/config"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {requests: 1/s}}}\nhttp:\n  allow_hosts: [api.example.com, " +
		"\"127.0.0.1:8080\"]\n  secrets: {API_KEY: [api.example.com, \"http://127.0.0.1:8080\"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := config.HTTP{
		AllowHosts: []string{"api.example.com", "127.0.0.1:8080"},
		Secrets:    map[string][]string{"API_KEY": {"api.example.com", "http://127.0.0.1:8080"}},
	}
	if diff := cmp.Diff(want, c.HTTP); diff != "" {
		t.Error(diff)
	}
	_, err = config.Parse([]byte("http: {allow_hosts: [\"https://a\", b], secrets: {\"${A}\": [b], B: [], C: [c], D: " +
		"[\"*\"]}, allow: 1}"))
	for _, field := range []string{
		"http.allow_hosts", "http.secrets", "http.secrets.B", "http.secrets.C", "http.secrets.D", "http",
	} {
		if err == nil || !strings.Contains(err.Error(), field+": ") && !strings.Contains(err.Error(), field+" ") {
			t.Errorf("no fault at %s: %v", field, err)
		}
	}
}

// The error for secrets as a list of names shows the right form.
func TestSecretsWithoutHosts(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte("http: {allow_hosts: [a], secrets: [API_KEY]}"))
	if err == nil || !strings.Contains(err.Error(), "http.secrets: ") ||
		!strings.Contains(err.Error(), "API_KEY: [a.example.com]") {
		t.Errorf("got %v", err)
	}
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte("limits: {a: {meters: {requests: 1/s}}}\nestimates: {learn: [a], quantile: 0.5}\n"))
	if diff := cmp.Diff(config.Estimates{Learn: []string{"a"}, Quantile: 0.5}, c.Estimates); err != nil || diff != "" {
		t.Error(err, diff)
	}
	_, err = config.Parse([]byte("limits: {a: {meters: {requests: 1/s}}}\nestimates: {learn: [b], quantile: 2}\n"))
	if err == nil || !strings.Contains(err.Error(), "estimates.learn: ") &&
		!strings.Contains(err.Error(), "estimates.learn ") || !strings.Contains(err.Error(), "estimates.quantile") {
		t.Errorf("got %v", err)
	}
}
