package browser_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screenshots is where the tests write what they saw; CI keeps it.
const screenshots = "../screenshots"

// patience bounds one step in the browser, also on a busy machine.
const patience = 2 * time.Minute

// browser starts a Chromium with an empty profile, which goes to loopback only. A browser that is missing is a failure.
func browser(t *testing.T) context.Context {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	if program == "" {
		t.Fatal(`CHROMIUM is not set: run eval "$(scripts/browser)" first, which installs what is missing`)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.Headless,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-sync", true),
		chromedp.ProxyServer("http://127.0.0.1:9"), // what is not on loopback is refused
	)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as this context
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

// unknown is a page that is not found, on purpose.
const unknown = "/limit?name=nothing"

// tab opens a page of its own and reports what the browser complains of: errors of scripts, refused loads, and what the
// content security policy forbade.
func tab(t *testing.T, in context.Context, width int64, scheme string) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(in)
	t.Cleanup(cancel)
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page threw: %v", e.ExceptionDetails)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError && !strings.HasSuffix(e.Entry.URL, unknown) {
				t.Errorf("the browser complains: %s (%v)", e.Entry.Text, e.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, ctx, command(log.Enable, cdp.Empty{}), chromedp.EmulateViewport(width, 900),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}))
	return ctx
}

// command is a command of the protocol without a result.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

func run(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	value(t, ctx, chromedp.Steps(steps...))
}

// value is that of an action.
func value[T any](t *testing.T, ctx context.Context, action chromedp.Action[T]) T {
	t.Helper()
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as this context, not the one below
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// script is the value of an expression of JavaScript, awaited if it is a promise.
func script[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	return value(t, ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// shoot writes a picture of the whole page.
func shoot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	picture := value(t, ctx, chromedp.FullScreenshot(100))
	err := os.MkdirAll(screenshots, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(screenshots, name+".png"), picture, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// text is what a reader sees of an element.
func text(t *testing.T, ctx context.Context, selector string) string {
	t.Helper()
	return script[string](t, ctx, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// click clicks an element as soon as it is there.
func click(t *testing.T, ctx context.Context, selector string) {
	t.Helper()
	eventually(t, ctx, fmt.Sprintf("document.querySelector(%q)", selector))
	script[bool](t, ctx, fmt.Sprintf("document.querySelector(%q).click() ?? true", selector))
}

// eventually waits until an expression of JavaScript is true in the page.
func eventually(t *testing.T, ctx context.Context, expression string) {
	t.Helper()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for limited.Err() == nil {
		// An error means that the browser is between two pages.
		if is, err := chromedp.Run(limited, chromedp.Evaluate[bool]("Boolean("+expression+")")); err == nil && is {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	body, _ := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body")))
	t.Fatalf("%s is not true in\n%s", expression, body)
}

// rulesText is axe-core.
func rulesText(t *testing.T) string {
	t.Helper()
	name := os.Getenv("AXE_CORE")
	if name == "" {
		t.Fatal(`AXE_CORE is not set: run eval "$(scripts/browser)" first, which installs what is missing`)
	}
	rules, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(rules)
}

// finding is a rule of axe-core that a page breaks.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// judge fails for each serious finding of axe-core. The debugger evaluates it, which no policy of the page concerns.
func judge(t *testing.T, ctx context.Context, rules, where string) {
	t.Helper()
	script[bool](t, ctx, rules+"\ntrue")
	found := script[[]finding](t, ctx, `axe.run().then((r) => r.violations.map((v) => ({
		ID: v.id, Impact: v.impact, Help: v.help,
		Nodes: v.nodes.map((n) => ({HTML: n.html, FailureSummary: n.failureSummary})),
	})))`)
	for _, f := range found {
		lines := []string{fmt.Sprintf("%s: %s (%s): %s", where, f.ID, f.Impact, f.Help)}
		for _, n := range f.Nodes[:min(3, len(f.Nodes))] {
			lines = append(lines, n.HTML, n.FailureSummary)
		}
		message := strings.Join(lines, "\n  ")
		if f.Impact == "serious" || f.Impact == "critical" {
			t.Error(message)
		} else {
			t.Log(message)
		}
	}
}
