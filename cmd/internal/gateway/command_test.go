package gateway

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/reservations/redisstore"
)

// rootCommand is a `headway` with the commands of this package alone.
func rootCommand(env cli.Environment) *cobra.Command {
	root := &cobra.Command{Use: "headway"}
	root.AddCommand(Commands(env)...)
	return root
}

// fleet is what a gateway needs: a Redis, a provider, a file.
type fleet struct {
	env  map[string]string
	file string
}

const limits = "limits: {openai: {meters: {requests: 100/s, tokens: 900000/m}}, tenants: {meters: {requests: 50/s}}}\n"

func newFleet(t *testing.T) *fleet {
	t.Helper()
	redis, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	client := redis.Connect()
	defer func() { _ = client.Close() }()
	if _, err = redisstore.OpenNew(t.Context(), client); err != nil { // its buckets begin full
		t.Fatal(err)
	}
	p, err := provider.Start(provider.Config{MinLatency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	f := &fleet{file: filepath.Join(t.TempDir(), "headway.yaml"), env: map[string]string{
		"REDIS_URL": redis.URL(), "OPENAI_BASE_URL": p.URL(), "OPENAI_API_KEY": "sk-hidden", "HOME": t.TempDir(),
	}}
	if err = os.WriteFile(f.file, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs one command to its end.
func (f *fleet) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = cli.Run(t.Context(), rootCommand, args, f.environment(&o, &e))
	return code, o.String(), e.String()
}

func (f *fleet) environment(out, errs io.Writer) cli.Environment {
	return cli.Environment{Getenv: func(name string) string { return f.env[name] }, Out: out, Err: errs}
}

// serve runs a gateway until end, and returns its base URL.
func (f *fleet) serve(t *testing.T, flags ...string) (baseURL string, end func() (code int, errs string)) {
	t.Helper()
	found, end := f.serveUntil(t, regexp.MustCompile(`base_url=(\S+)`), flags...)
	return found[1], end
}

// serveUntil runs a gateway until end, and returns what a pattern finds in its log.
func (f *fleet) serveUntil(
	t *testing.T, pattern *regexp.Regexp, flags ...string,
) (matches []string, end func() (code int, errs string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	var errs bytes.Buffer
	found := make(chan []string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		chunk := make([]byte, 1<<10)
		for {
			n, err := read.Read(chunk)
			errs.Write(chunk[:n])
			if at := pattern.FindStringSubmatch(errs.String()); at != nil {
				select {
				case found <- at:
				default:
				}
			}
			if err != nil {
				close(found)
				return
			}
		}
	})
	ended := make(chan int, 1)
	go func() {
		args := append([]string{"gateway", "--config", f.file, "--listen", "127.0.0.1:0"}, flags...)
		ended <- cli.Run(ctx, rootCommand, args, f.environment(io.Discard, write))
		_ = write.Close()
	}()
	end = sync.OnceValues(func() (int, string) {
		cancel()
		code := <-ended
		reading.Wait()
		return code, errs.String()
	})
	t.Cleanup(func() { end() })
	if matches = <-found; matches == nil {
		_, text := end()
		t.Fatal(text)
	}
	return matches, end
}

const chat = `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`

// ask sends a chat, and returns the status and the answer.
func ask(t *testing.T, baseURL, key string) (status int, answer string) {
	t.Helper()
	return askFor(t, "m", baseURL, key)
}

// askFor is ask for a model.
func askFor(t *testing.T, model, baseURL, key string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL+"/chat/completions",
		strings.NewReader(strings.Replace(chat, `"m"`, `"`+model+`"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestGateway(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	baseURL, end := f.serve(t, "--limit", "openai")
	for range 120 { // more than the capacity: the last ones wait
		if status, answer := ask(t, baseURL, "any"); status != http.StatusOK || !strings.Contains(answer, "stand-in") {
			t.Fatalf("%d: %s", status, answer)
		}
	}
	if code, errs := end(); code != cli.ExitOK || strings.Contains(errs, "sk-hidden") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A gateway has the metrics of a worker: a call is a task of the queue "gateway", and its endpoint is the type.
func TestGatewayMetrics(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	found, _ := f.serveUntil(t, regexp.MustCompile(`(?s)address=(\S+).*base_url=(\S+)`),
		"--limit", "openai", "--metrics", "127.0.0.1:0")
	metrics, baseURL := caller{t: t, baseURL: "http://" + found[1]}, found[2]
	if status, answer := ask(t, baseURL, "any"); status != http.StatusOK {
		t.Fatalf("%d: %s", status, answer)
	}
	until(t, func() bool {
		status, _ := metrics.get("/readyz")
		return status == http.StatusOK
	})
	_, text := metrics.get("/metrics")
	for _, want := range []string{
		`headway_tasks_finished_total{queue="gateway",result="succeeded",type="/v1/chat/completions"} 1`,
		`headway_starts_total{key="",limit="openai"} 1`, `headway_tasks_running{queue="gateway"} 0`,
		`headway_meter_capacity_tokens{key="",limit="openai",meter="requests"} 100`, "headway_redis_call_duration_seconds",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestGatewayRefusesToStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"a limit that is not there": {args: []string{"--limit", "nope"}, want: "--limit: "},
		"half of TLS":               {args: []string{"--tls-cert", "x"}, want: "belong together"},
		"no certificate": {
			args: []string{"--limit", "openai", "--tls-cert", "x", "--tls-key", "x"}, want: "--tls-cert",
		},
		"no time to wait":        {args: []string{"--max-hold", "0s"}, want: "--max-hold"},
		"everybody":              {args: []string{"--listen", "0.0.0.0:0"}, want: "not loopback"},
		"metrics without a port": {args: []string{"--metrics", "nonsense"}, want: "--metrics"},
		"no provider's key":      {env: map[string]string{"OPENAI_API_KEY": ""}, want: "OPENAI_API_KEY is not set"},
	} {
		own := &fleet{file: f.file, env: map[string]string{}}
		maps.Copy(own.env, f.env)
		maps.Copy(own.env, c.env)
		args := append([]string{"gateway", "--config", f.file, "--listen", "127.0.0.1:0"}, c.args...)
		code, _, errs := own.run(t, args...)
		if code != cli.ExitUsage || !strings.Contains(errs, c.want) || strings.Contains(errs, "the gateway is at") {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:8080": "https://127.0.0.1:8080/v1", "[::1]:8080": "https://[::1]:8080/v1",
		"[::]:8443": "https://HOST:8443/v1", "0.0.0.0:8443": "https://HOST:8443/v1",
	} {
		if got := (&Settings{Cert: "cert.pem"}).baseURL(address); got != want {
			t.Errorf("%s: %s instead of %s", address, got, want)
		}
	}
}
