package program

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/headway-go/headway/internal/products/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{
			"-requests-rate", "5", "-requests-capacity", "2", "-tokens-rate", "1", "-tokens-capacity", "200", "-slack", "0",
			"-min-latency", "0", "-max-latency", "0", "-used-min", "0", "-used-max", "0",
		}, in, io.Discard)
		_ = in.Close()
		done <- err
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, lines.Text()+"/chat/completions",
		strings.NewReader(`{"model":"m","messages":[{"content":"1234"}],"max_tokens":100,"metadata":{"custom_id":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer k")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	cancel()
	lines.Scan()
	var report provider.Report
	if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
		t.Fatalf("report %q: %v", lines.Text(), err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if report.Accepted != 1 || report.Starts["a"] != 1 || report.Meters["requests"].Rate != 5 ||
		report.Meters["tokens"].Used != 2 { // the prompt and the shortest answer
		t.Errorf("report %s", lines.Text())
	}
}

func TestRunAtFault(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-addr", "0.0.0.0:0"}, {"stray"}, {"-nonsense"}, {"-tokens-rate", "1"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	r := provider.Report{Requests: 7, Accepted: 5, Violations: 2, Failed: 1, Starts: map[string]int{"task": 1}}
	if err := summarize(&out, r); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 3 || strings.Contains(got, "task") ||
		!strings.Contains(got, "requests 7, accepted 5, violations 2, failed 1") {
		t.Errorf("%s", got)
	}
}

func TestTenants(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"acme=10/5": true, "acme=0.5/1e3": true, "acme=10/5x": false, "acme=10/5/2": false, "acme=10": false, "=10/5": false,
	} {
		var cfg provider.Config
		if err := addTenant(&cfg, text); (err == nil) != ok || len(cfg.Tenants) == 1 != ok {
			t.Errorf("%s: %v, %v", text, cfg.Tenants, err)
		}
	}
}
