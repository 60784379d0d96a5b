package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// One command runs a fleet with a page, on a machine without services, keys and settings. Commands in other processes
// find it. A killed fleet leaves a file, which other commands ignore and the next fleet replaces.
func TestDevFromNothing(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := filepath.Join(home, "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {openai: {meters: {requests: 50/s, tokens: 90000/m}}}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home}
	for _, run := range []string{"first", "second"} {
		began := time.Now()
		dev := spawn(t, "dev-"+run, programPlain, env, "dev", "--config", file, "--listen", "127.0.0.1:0")
		await(t, "the page shows a worker", func() (bool, string) {
			page := devPage(t, dev)
			return strings.Contains(page, "<b>1</b> worker"), page
		})
		t.Logf("%s: the page shows a worker after %v", run, time.Since(began).Round(time.Millisecond))
		sent := command(t, "headway", env, "", "enqueue", "Hi", "--limit", "openai", "--config", file)
		if sent.code != 0 || !strings.Contains(sent.err, "headway dev") {
			t.Fatalf("enqueue: exit code %d: %s%s", sent.code, sent.out, sent.err)
		}
		await(t, "the answer", func() (bool, string) {
			answer := command(t, "headway", env, "", "answer", strings.TrimSpace(sent.out))
			return answer.code == 0 && answer.out != "", fmt.Sprintf("%d: %s%s", answer.code, answer.out, answer.err)
		})
		if run == "first" {
			dev.kill()
			continue
		}
		dev.terminate(t)
		dev.exit(t)
		if left, err := filepath.Glob(filepath.Join(home, ".cache", "headway", "*")); err != nil || left != nil {
			t.Errorf("files are left: %v, %v", left, err)
		}
	}
}

var devAddress = regexp.MustCompile(`page +(http://\S+)`)

// devPage is the first page of a fleet, empty as long as there is none.
func devPage(t *testing.T, dev *process) string {
	t.Helper()
	address := devAddress.FindStringSubmatch(dev.out.String())
	if address == nil {
		return ""
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address[1], nil)
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
