package browser_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/headway-go/headway/deadtasks"
)

// Every page fits, is accessible, complains of nothing, and shows hostile texts as texts.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestPages(t *testing.T) {
	f := startFleet(t)
	at := f.serve(t, true)
	b, rules := browser(t), rulesText(t)
	task := "/task?queue=default&id=" + url.QueryEscape(f.waiting)
	pages := []struct{ name, path string }{
		{"overview", "/"},
		{"limits", "/limit"},
		{"limit", "/limit?name=openai"},
		{"tasks", "/task"},
		{"task-waits", task},
		{"task-died", "/task?id=" + url.QueryEscape(f.failed)},
		{"batches", "/batches"},
		{"batch", "/batch?id=3f2a9c1e"},
		{"batch-stopped", "/batch?id=77c0ffee"},
		{"dead", "/dead"},
		{"queues", "/queues"},
		{"queue", "/queue?name=nightly"},
		{"unknown", unknown},
	}
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {390, "light"}, {1280, "dark"}, {390, "dark"}} {
		ctx := tab(t, b, look.width, look.scheme)
		for _, p := range pages {
			where := fmt.Sprintf("%s-%d-%s", p.name, look.width, look.scheme)
			run(t, ctx, chromedp.Navigate(at+p.path), chromedp.WaitVisible(chromedp.CSS("main h1")))
			eventually(t, ctx, `document.getElementById("live").textContent === "live"`)
			if wide := script[int64](t, ctx, `document.documentElement.scrollWidth`); wide > look.width {
				t.Errorf("%s is %d wide", where, wide)
			}
			if script[bool](t, ctx, `Boolean(window.pwned)`) {
				t.Errorf("%s ran a script of a task", where)
			}
			judge(t, ctx, rules, where)
			shoot(t, ctx, where)
		}
	}
}

// A payload that is a script is shown as its text, and a character that turns the direction of writing as an escape.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestHostileTextsAreShown(t *testing.T) {
	f := startFleet(t)
	at := f.serve(t, false)
	ctx := tab(t, browser(t), 1280, "light")
	run(t, ctx, chromedp.Navigate(at+"/task?id="+url.QueryEscape(f.waiting)))
	payload := text(t, ctx, "main pre")
	if !strings.Contains(payload, "script>window.pwned=1") || strings.Contains(payload, "\u202e") {
		t.Errorf("the payload is shown as %q", payload)
	}
	run(t, ctx, chromedp.Navigate(at+"/task?id="+url.QueryEscape(f.failed)))
	if path := text(t, ctx, "main ol.path"); !strings.Contains(path, `<script>window.pwned=1</script>`) ||
		!strings.Contains(path, `\u202etxt.exe`) {
		t.Errorf("the error is shown as %q", path)
	}
}

// One look at the first page says what is stuck and why.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestSaysWhatIsStuck(t *testing.T) {
	f := startFleet(t)
	ctx := tab(t, browser(t), 1280, "light")
	run(t, ctx, chromedp.Navigate(f.serve(t, false)+"/"))
	for _, want := range []string{"Queue nightly is paused: 3 tasks wait.", "5 tasks died in the last hour."} {
		eventually(t, ctx, fmt.Sprintf("document.querySelector('.stuck').innerText.includes(%q)", want))
	}
}

// A reader finds a waiting task by its ID, and sees it end without doing anything.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestTaskIsFollowed(t *testing.T) {
	f := startFleet(t)
	ctx := tab(t, browser(t), 1280, "light")
	run(t, ctx, chromedp.Navigate(f.serve(t, false)+"/"),
		chromedp.SendKeys(chromedp.CSS("#find"), f.waiting), chromedp.Submit(chromedp.CSS("#find")),
		chromedp.WaitVisible(chromedp.CSS(".task")))
	if seen := text(t, ctx, ".task"); !strings.Contains(seen, "waits for limit openai: it is number") ||
		!strings.Contains(seen, "Expected to go on") {
		t.Errorf("a waiting task is shown as:\n%s", seen)
	}
	before := text(t, ctx, ".summary")
	if err := f.inspector.DeleteTask("default", f.waiting); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, fmt.Sprintf("document.querySelector('.summary').textContent !== %q", before))
}

// A reader can requeue a dead task with --allow-changes alone: without, there is no button, and a request is refused.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestRequeue(t *testing.T) {
	f := startFleet(t)
	b := browser(t)
	f.fix()
	record := func() deadtasks.State {
		for r, err := range f.dead.List(t.Context(), deadtasks.Filter{ID: f.failed, AnyState: true}) {
			if err != nil {
				t.Fatal(err)
			}
			return r.State
		}
		return ""
	}
	task := "/task?queue=mail&id=" + url.QueryEscape(f.failed)

	readOnly := f.serve(t, false)
	ctx, cancel := chromedp.NewContext(b) // not tab: here the browser has to complain of the refusal
	defer cancel()
	run(t, ctx, chromedp.Navigate(readOnly+task))
	buttons := script[int](t, ctx, `document.querySelectorAll("main form").length`)
	status := script[int](t, ctx, fmt.Sprintf(`fetch("/requeue", {
		method: "POST", body: new URLSearchParams({id: %q, queue: "mail"}),
	}).then((r) => r.status)`, f.failed))
	if buttons != 0 || status != 403 || record() != deadtasks.StateDead {
		t.Errorf("read-only: %d forms, status %d, the task is %s", buttons, status, record())
	}

	writable := tab(t, b, 390, "light")
	run(t, writable, chromedp.Navigate(f.serve(t, true)+task))
	click(t, writable, "main form button.main")
	eventually(t, writable, `document.querySelector(".notice")`)
	if seen := text(t, writable, ".notice"); seen != "1 task requeued." {
		t.Errorf("the page says %q", seen)
	}
	shoot(t, writable, "requeued-390-light")
	if state := record(); state != deadtasks.StateRequeued && state != deadtasks.StateRecovered {
		t.Errorf("the task is %s", state)
	}
}

// A queue is paused and resumed by its button.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestPauseAndResume(t *testing.T) {
	f := startFleet(t)
	ctx := tab(t, browser(t), 1280, "light")
	paused := func() bool {
		info, err := f.inspector.GetQueueInfo("nightly")
		if err != nil {
			t.Fatal(err)
		}
		return info.Paused
	}
	run(t, ctx, chromedp.Navigate(f.serve(t, true)+"/queue?name=nightly"))
	click(t, ctx, `form[action="resume"] button`)
	eventually(t, ctx, `document.querySelector(".notice")?.textContent.startsWith("The queue is resumed")`)
	if paused() {
		t.Error("the queue is still paused")
	}
	click(t, ctx, `form[action="pause"]:has(input[value="nightly"]) button`)
	eventually(t, ctx, `document.querySelector(".notice")?.textContent.startsWith("The queue is paused")`)
	if !paused() {
		t.Error("the queue is not paused")
	}
}

// A rate is set by its form. While the form is open, the page around it stands still.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestARateIsSet(t *testing.T) {
	f := startFleet(t)
	ctx := tab(t, browser(t), 390, "light")
	run(t, ctx, chromedp.Navigate(f.serve(t, true)+"/limit?name=search"), chromedp.WaitVisible(chromedp.CSS("main h1")))
	eventually(t, ctx, `document.getElementById("live").textContent === "live"`)
	click(t, ctx, `details.ask:has(form[action="set"]) summary`)
	shoot(t, ctx, "set-390-light")
	eventually(t, ctx, `document.getElementById("live").textContent === "waits for you"`)
	run(t, ctx, chromedp.SendKeys(chromedp.CSS(`form[action="set"] input[name="rate"]`), "7/s"))
	click(t, ctx, `form[action="set"] button.main`)
	eventually(t, ctx, `document.querySelector(".notice")?.textContent.startsWith("The rate is set")`)
	eventually(t, ctx, `document.querySelector("main").innerText.includes("7/s")`)
}

// Without JavaScript the tables are there.
//
//nolint:paralleltest // a browser wants the machine for itself
func TestWithoutJavaScript(t *testing.T) {
	f := startFleet(t)
	ctx := tab(t, browser(t), 1280, "light")
	run(t, ctx, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}),
		chromedp.Navigate(f.serve(t, false)+"/dead?error=mailbox"))
	if seen := text(t, ctx, "table"); strings.Count(seen, "550 no such mailbox") != 5 {
		t.Errorf("the table is\n%s", seen)
	}
}
