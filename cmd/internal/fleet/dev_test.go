package fleet

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/gateway"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

const devLimits = "limits: {openai: {meters: {requests: 50/s, tokens: 90000/m}}}\n"

// This type holds what a command has written so far. It is safe for concurrent use.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// devRun is a `headway dev` that runs, in a home of its own.
type devRun struct {
	env  map[string]string
	file string
	out  *written
	page string
	end  func() int
}

func startDev(t *testing.T, flags ...string) *devRun {
	t.Helper()
	folder := t.TempDir()
	d := &devRun{env: map[string]string{"HOME": folder}, file: filepath.Join(folder, "headway.yaml"), out: &written{}}
	if err := os.WriteFile(d.file, []byte(devLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t, append([]string{"dev", "--config", d.file}, flags...)...)
	return d
}

// start runs a command with a page, and returns when it has said where the page is.
func (d *devRun) start(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, rootCommand, append(args, "--listen", "127.0.0.1:0"), cli.Environment{
			Getenv: func(name string) string { return d.env[name] }, Out: d.out, Err: d.out,
		})
	}()
	d.end = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { d.end() })
	d.until(t, func() bool {
		if found := regexp.MustCompile(`page +(?:is at )?(http://[^\s,]+)`).FindStringSubmatch(d.out.String()); found != nil {
			d.page = found[1]
		}
		return d.page != ""
	})
}

// until waits for something that another goroutine does.
func (d *devRun) until(t *testing.T, is func() bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("dev wrote:\n%s", d.out)
		}
	}()
	until(t, "dev", is)
}

// scheduler enqueues in the fleet, until the end of the test.
func (d *devRun) scheduler(t *testing.T) *scheduler.Scheduler {
	t.Helper()
	client, err := connect.Redis(t.Context(), func(name string) string { return d.env[name] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := scheduler.New(client, nil, scheduler.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *devRun) get(t *testing.T, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.page+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	return string(text)
}

// Without a headway.yaml, dev has the settings of `headway init`, and other commands find its limits.
func TestDevWithoutAFile(t *testing.T) {
	t.Parallel()
	d := &devRun{env: map[string]string{"HOME": t.TempDir()}, out: &written{}}
	d.start(t, "dev")
	d.until(t, func() bool { // its worker publishes the limits
		code, out, _ := command(t, d.env, "limits", "show", "openai")
		return code == cli.ExitOK && strings.Contains(out, "20000")
	})
	if !strings.Contains(d.out.String(), "headway init") {
		t.Error(d.out)
	}
	if code := d.end(); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, d.out)
	}
}

// One command runs a fleet; another process finds it without a setting, and its task is answered.
func TestDev(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	s := d.scheduler(t)
	chat, err := llm.NewCall(llm.EndpointChat, "openai",
		[]byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Enqueue(t.Context(), chat, tasks.Options{Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	d.until(t, func() bool { return strings.Contains(d.get(t, "/task?id="+info.ID), "was done at") })
	var page string
	d.until(t, func() bool { // the page reads the fleet from time to time
		page = d.get(t, "/")
		return strings.Contains(page, "<b>1</b> worker")
	})
	if !strings.Contains(page, "Nothing is stuck") {
		t.Errorf("the page is\n%s", page)
	}
	code, out, errs := command(t, d.env, "limits", "show", "--config", d.file)
	if code != 0 || !strings.Contains(out, "openai") {
		t.Errorf("limits show: exit %d, %s%s", code, out, errs)
	}
	code, _, errs = command(t, d.env, "dev", "--config", d.file)
	if code != cli.ExitUsage || !strings.Contains(errs, "runs already") {
		t.Errorf("a second one: exit %d, %s", code, errs)
	}
	if code = d.end(); code != cli.ExitInterrupted && code != cli.ExitOK {
		t.Errorf("exit %d:\n%s", code, d.out)
	}
	if _, err = os.Stat(filepath.Join(d.env["HOME"], ".cache", "headway", "dev.json")); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// The command that `headway dev` prints is one that works: its limit is of a provider, and counts calls.
func TestDevNamesALimitOfCalls(t *testing.T) {
	t.Parallel()
	meters := func(name string, m ...reservations.Meter) reservations.Limit {
		return reservations.Limit{Name: name, Meters: m}
	}
	requests := reservations.PerMinute("requests", 5)
	api, openai := meters("api", requests), meters("openai", requests)
	pages, gpu := meters("pages", reservations.PerMinute("pages", 5)), meters("gpu", reservations.InFlight(2))
	one := config.Providers{{Name: "openai", Limits: []string{"openai"}}}
	for want, c := range map[string]config.Config{
		"api":    {Limits: []reservations.Limit{api, openai}},
		"openai": {Limits: []reservations.Limit{api, openai}, Providers: one},
		"gpu":    {Limits: []reservations.Limit{pages, gpu, openai}},
		"NAME":   {Limits: []reservations.Limit{api}, Providers: one},
	} {
		if got := callable(c); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A saved file is in force at once: limits in the worker that runs, all else in another worker. A faulty one changes
// nothing, and the page says so. One that no worker can start with ends the worker, and not the fleet.
func TestDevFollowsTheFile(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--allow-real-calls")
	save := func(text string) {
		if err := os.WriteFile(d.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.until(t, func() bool { return strings.Contains(d.get(t, "/queues"), "<td>default</td>") })
	save(strings.Replace(devLimits, "50/s", "70/s", 1))
	d.until(t, func() bool { return strings.Contains(d.get(t, "/limit"), "70/s") })
	save("limits: {openai: {meters: {requests: -1/s}}}\n")
	d.until(t, func() bool { return strings.Contains(d.get(t, "/"), "limits.openai.meters.requests.rate") })
	save(devLimits + "queues: {other: 1}\nconcurrency: 7\n")
	d.until(t, func() bool {
		page := d.get(t, "/queues")
		return strings.Contains(page, "<td>other</td>") && !strings.Contains(page, "<td>default</td>")
	})
	save(devLimits + "http: {allow_hosts: [a.example], secrets: {NOT_SET: [a.example]}}\n")
	d.until(t, func() bool { return strings.Contains(d.out.String(), "NOT_SET is not set") })
	save(devLimits + "queues: {third: 1}\n")
	d.until(t, func() bool { return strings.Contains(d.get(t, "/queues"), "<td>third</td>") })
	if n := strings.Count(d.out.String(), "requests.rate: -1"); n != 1 {
		t.Errorf("a fault is reported %d times:\n%s", n, d.out)
	}
}

// The provider enforces what the file says.
func TestDevProviderHasTheLimits(t *testing.T) {
	t.Parallel()
	tokens := reservations.PerMinute("tokens", 6000)
	tokens.Capacity = 50
	limits := []reservations.Limit{
		{Name: "window", Meters: []reservations.Meter{
			{Name: "requests", Rate: 9, Period: time.Hour, Kind: reservations.KindWindow},
		}},
		{Name: "api", Meters: []reservations.Meter{reservations.PerMinute("requests", 300), tokens}},
		{Name: "other", Meters: []reservations.Meter{reservations.PerMinute("requests", 6)}},
	}
	want := quotas{requests: provider.Quota{Rate: 5, Capacity: 300}, tokens: provider.Quota{Rate: 100, Capacity: 50}}
	if got := quotasOf(limits); got != want {
		t.Errorf("quotas %+v", got)
	}
}

func TestDashboardWantsCredentials(t *testing.T) {
	t.Parallel()
	safe := map[string]string{"HEADWAY_DASHBOARD_USER": "ada", "HEADWAY_DASHBOARD_PASSWORD": "short"}
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, []string{"--allow-changes"}, "--allow-changes needs credentials"},
		{nil, []string{"--listen", "0.0.0.0:0"}, "is not loopback"},
		{nil, []string{"--listen", ":0"}, "is not loopback"},
		{nil, []string{"--listen", "[::]:0"}, "is not loopback"},
		{nil, []string{"--listen", "192.0.2.1:0"}, "is not loopback"},
		{safe, nil, "at least 12 characters"},
	} {
		code, out, errs := command(t, c.env, append([]string{"dashboard", "--config", "../../../headway.yaml"}, c.args...)...)
		if code != cli.ExitUsage || !strings.Contains(errs, c.want) || strings.Contains(errs, "short") {
			t.Errorf("%v: exit %d, %s%s", c.args, code, out, errs)
		}
	}
	for _, args := range [][]string{{"dev", "--listen", "0.0.0.0:0"}, {"demo", "--ui", "--listen", "0.0.0.0:0"}} {
		if code, _, errs := command(t, nil, args...); code != cli.ExitUsage || !strings.Contains(errs, "loopback") {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
}

// The demo shows its tasks on its page while they wait, and ends when it is asked to.
func TestDemoWithPage(t *testing.T) {
	t.Parallel()
	night.Only(t, "looks at a demo before it ends")
	d := &devRun{out: &written{}}
	begun := regexp.MustCompile(`done [1-9]\d*/400`)
	d.start(t, "demo", "--ui")
	d.until(t, func() bool {
		page := d.get(t, "/")
		return strings.Contains(page, "<b>3</b> workers") && strings.Contains(page, "</b> waiting") &&
			begun.MatchString(d.out.String())
	})
	if code := d.end(); code != cli.ExitInterrupted {
		t.Errorf("exit %d: %s", code, d.out)
	}
}

// A client in any language calls the provider through the gateway of dev, in one limit with the tasks.
func TestDevServesTheGateway(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--gateway", "127.0.0.1:0")
	for _, stream := range []string{"false", "true"} {
		res, text := d.chat(t, stream, "any") //nolint:bodyclose // it is
		if res.StatusCode != http.StatusOK || !strings.Contains(text, "tokens.") ||
			res.Header.Get("X-Ratelimit-Limit-Requests") != "50" {
			t.Errorf("%d, %v: %s", res.StatusCode, res.Header, text)
		}
	}
}

// The gateway of dev goes by keys as any other one: from the first key on, each caller needs one.
func TestDevHasKeys(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--gateway", "127.0.0.1:0")
	d.chat(t, "false", "any") //nolint:bodyclose // it is; the fleet is there
	var secret bytes.Buffer
	commands := func(env cli.Environment) *cobra.Command {
		root := rootCommand(env)
		root.AddCommand(gateway.Commands(env)...)
		return root
	}
	code := cli.Run(t.Context(), commands, []string{"keys", "create", "--config", d.file, "--tenant", "me"},
		cli.Environment{Getenv: func(name string) string { return d.env[name] }, Out: &secret, Err: d.out})
	if code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, d.out)
	}
	d.until(t, func() bool {
		res, _ := d.chat(t, "false", "any") //nolint:bodyclose // it is
		return res.StatusCode == http.StatusUnauthorized
	})
	res, text := d.chat(t, "false", strings.TrimSpace(secret.String())) //nolint:bodyclose // it is
	if res.StatusCode != http.StatusOK {
		t.Errorf("%d: %s", res.StatusCode, text)
	}
}

// chat asks the gateway with a key.
func (d *devRun) chat(t *testing.T, stream, key string) (res *http.Response, text string) {
	t.Helper()
	var baseURL []string
	d.until(t, func() bool {
		baseURL = regexp.MustCompile(`base_url=(\S+) `).FindStringSubmatch(d.out.String())
		return baseURL != nil
	})
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"stream":` + stream + `}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, baseURL[1]+"/chat/completions",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if res, err = client.Do(r); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(all)
}
