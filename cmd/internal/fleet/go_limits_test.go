package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// vendorTask is a task of a program with limits of its own.
type vendorTask struct{ N int }

func (vendorTask) TaskType() string { return "vendor:call" }

func (vendorTask) Charges() []headway.Charge {
	return []headway.Charge{{Limit: "vendor", Tokens: headway.Tokens{"requests": 1}}}
}

func (v vendorTask) TaskOptions() headway.Options {
	return headway.Options{ID: fmt.Sprintf("t%03d", v.N)}
}

// vendorFleet runs a Go program whose limit "vendor" is in no file, with 300 waiting tasks. It returns the environment
// of commands.
func vendorFleet(t *testing.T) map[string]string {
	t.Helper()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	client := server.Connect()
	hw, err := headway.New(client, headway.Config{
		Limits: headway.Limits{"vendor": {{Name: "requests", Rate: 100, Period: time.Hour, Capacity: 1}}},
		Worker: worker.Config{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		t.Fatal(err)
	}
	headway.Handle(hw, func(context.Context, *headway.Job[vendorTask]) error { return nil })
	var waiting []tasks.Args
	for n := range 300 {
		waiting = append(waiting, vendorTask{N: n})
	}
	if _, err = hw.EnqueueMany(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- hw.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = client.Close()
		server.Close()
	})
	within := time.Now().Add(time.Minute)
	for {
		members, err := register.New(client).Members(t.Context())
		if len(members) == 1 {
			return map[string]string{"REDIS_URL": server.URL()}
		}
		if time.Now().After(within) {
			t.Fatal("the worker is not in the register", err)
		}
	}
}

// Commands and the page know the limits of a Go program, without a file and beside one.
func TestLimitsOfAGoProgram(t *testing.T) {
	t.Parallel()
	env := vendorFleet(t)
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {other: {meters: {requests: 5/s}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"limits show vendor", "vendor  300 tasks wait, the last is expected to start in "},
		{"limits show vendor", "requests  100/h"},
		{"limits show", "vendor  300 tasks wait"},
		{"limits show --config " + file, "this limit is in worker "},
		{"limits show other --config " + file, "this limit is in " + file + `, but no live worker has limit "other"`},
		{"limits list", "vendor  requests"},
		{"explain t299", "waits for limit vendor: it is number 300 of 300 in its waitlist"},
		{"explain t299", "LEVEL"},
		{"limits set vendor.requests 200/h", "was: 100/h, at most 1 at once"},
		{"limits show vendor", "override: vendor.requests 200/h"},
		{"limits unset vendor.requests", "vendor.requests: 100/h, at most 1 at once"},
		{"limits unblock vendor", "vendor"},
	} {
		code, out, errs := command(t, env, strings.Fields(c.line)...)
		if code != cli.ExitOK || !strings.Contains(out, c.want) {
			t.Errorf("headway %s: exit %d, %q is not in:\n%s%s", c.line, code, c.want, out, errs)
		}
	}
	for _, line := range []string{"limits show vendors", "limits set vendor.tokens 5/s", "limits unblock vendors"} {
		if code, out, errs := command(t, env, strings.Fields(line)...); code == cli.ExitOK ||
			!strings.Contains(errs, "vendor") {
			t.Errorf("headway %s: exit %d: %s%s", line, code, out, errs)
		}
	}
	page := pageOf(t, env, file)
	for _, want := range []string{
		"limit vendor is long: 300 tasks wait, the last is expected to start in ", "limit?name=vendor",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page:\n%s", want, page)
		}
	}
}

// A limit that the file has with other settings is shown as the workers have it, with the difference.
func TestLimitsThatDifferFromTheFile(t *testing.T) {
	t.Parallel()
	env := vendorFleet(t)
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {vendor: {meters: {requests: 5/s}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, env, "limits", "show", "--config", file)
	other := file + " has requests 5/s, at most 5 at once"
	for _, want := range []string{"requests  100/h", "other settings: " + other} {
		if code != cli.ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit %d, %q is not in:\n%s%s", code, want, out, errs)
		}
	}
	page := pageOf(t, env, file)
	if want := "Limit vendor has other settings somewhere: " + other; !strings.Contains(page, want) {
		t.Errorf("%q is not on the page:\n%s", want, page)
	}
}

// pageOf is the first page of `headway dashboard`.
func pageOf(t *testing.T, variables map[string]string, file string) string {
	t.Helper()
	env := cli.Environment{
		Getenv: func(name string) string { return variables[name] }, Out: t.Output(), Err: t.Output(),
	}
	s, err := session.Load(t.Context(), env, file, session.Needs{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	config, err := newPage(t.Context(), s, file, env)
	if err != nil {
		t.Fatal(err)
	}
	server, err := dashboard.New(config)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	w := httptest.NewRecorder()
	server.Handler().ServeHTTP(w, r)
	return w.Body.String()
}
