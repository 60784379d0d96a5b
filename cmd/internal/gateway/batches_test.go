package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/calls/pause"
	calls "github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/night"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// work runs tasks of the fleet until the test ends.
func (f *fleet) work(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	s, err := session.Load(ctx, f.environment(io.Discard, io.Discard), f.file, session.Needs{Batches: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(ctx) })
	client, err := llm.NewClient(llm.Config{BaseURL: f.env["OPENAI_BASE_URL"], APIKey: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	requests, err := web.NewClient(web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requests.Close)
	quiet := slog.New(slog.DiscardHandler)
	recorder := record.New(s.Batches, quiet, calls.Request)
	server, err := worker.New(s.Queue, s.Limiter, worker.Config{
		Concurrency: 20, Logger: quiet, Events: []func(worker.Event){recorder.Event}, ShutdownTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	calls.HandleAll(server, calls.Only(client), requests, recorder, nil, &calls.Unusable{Redis: s.Queue, Log: quiet},
		s.Config.Prices)
	if err = server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
		recorder.Close()
	})
}

// caller calls the gateway with a key.
type caller struct {
	t            *testing.T
	baseURL, key string
}

// call returns the status, and the fields of the answer.
func (c caller) call(method, path, kind string, body io.Reader) (status int, text string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.baseURL+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	r.Header.Set("Content-Type", kind)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	res, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(all)
}

// object is what the tests read of a file or a batch.
type object struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Output string `json:"output_file_id"`
	Errors string `json:"error_file_id"`
	Faults struct {
		Data []struct {
			Code string `json:"code"`
			Line int    `json:"line"`
		} `json:"data"`
	} `json:"errors"`
	Counts struct {
		Total, Completed, Failed int
	} `json:"request_counts"`
}

func (c caller) read(status int, text string) (o object) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil || status != http.StatusOK {
		c.t.Fatalf("%d: %s", status, text)
	}
	return o
}

// upload uploads a file with fields.
func (c caller) upload(text string, fields ...string) (status int, answer string) {
	c.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = form.WriteField(fields[i], fields[i+1])
	}
	part, _ := form.CreateFormFile("file", "in.jsonl")
	_, _ = io.WriteString(part, text)
	_ = form.Close()
	return c.call(http.MethodPost, "/files", form.FormDataContentType(), &b)
}

func (c caller) file(text string) string {
	c.t.Helper()
	return c.read(c.upload(text, "purpose", "batch")).ID
}

func (c caller) batch(file string) object {
	c.t.Helper()
	return c.read(c.post("/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file)))
}

func (c caller) post(path, body string) (status int, text string) {
	c.t.Helper()
	return c.call(http.MethodPost, path, "application/json", strings.NewReader(body))
}

func (c caller) get(path string) (status int, text string) {
	c.t.Helper()
	return c.call(http.MethodGet, path, "", nil)
}

// ended waits until a batch has ended.
func (c caller) ended(id string) (o object) {
	c.t.Helper()
	until(c.t, func() bool {
		o = c.read(c.get("/batches/" + id))
		return strings.Contains("completed failed expired cancelled", o.Status)
	})
	return o
}

func chatLine(id, model string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":%q,"max_tokens":9,`+
		`"messages":[{"role":"user","content":"hi"}]}}`+"\n", id, model)
}

func chatLines(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(chatLine(fmt.Sprint("c", i), "m"))
	}
	return b.String()
}

// everywhere runs a test with files in Redis, in MongoDB and in a folder. Serve is fleet.serve with such files.
func everywhere(t *testing.T, test func(*testing.T, *fleet, serving)) {
	t.Helper()
	for _, place := range []string{"Redis", "MongoDB", "folder"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			f, args := newFleet(t), []string{"--limit", "openai"}
			switch place {
			case "MongoDB":
				night.Only(t, "the store of files has tests of its own for each place")
				f.env["MONGODB_URI"] = testenv.MongoURI(t)
			case "folder":
				args = append(args, "--files", t.TempDir())
			}
			test(t, f, func(flags ...string) (string, func() (int, string)) {
				return f.serve(t, append(args, flags...)...)
			})
		})
	}
}

// serving runs a gateway until end, and returns its base URL.
type serving func(flags ...string) (baseURL string, end func() (code int, errs string))

// A batch goes on where it was if its gateway ends, and every request has one line. Another gateway has its file.
func TestBatchOutlivesItsGateway(t *testing.T) {
	t.Parallel()
	everywhere(t, outlive)
}

func outlive(t *testing.T, f *fleet, serve serving) {
	t.Helper()
	baseURL, end := serve()
	first := caller{t, baseURL, "any"}
	const lines = 100
	file := first.file(chatLines(lines))
	made := first.batch(file)
	if code, errs := end(); code != cli.ExitOK {
		t.Fatal(errs)
	}
	f.work(t)
	baseURL, _ = serve()
	c := caller{t, baseURL, "any"}
	if status, text := c.get("/files/" + file + "/content"); status != http.StatusOK || text != chatLines(lines) {
		t.Errorf("%d: %d bytes", status, len(text))
	}
	last := c.ended(made.ID)
	if last.Status != "completed" || last.Counts.Total != lines || last.Counts.Completed != lines || last.Errors != "" {
		t.Errorf("%+v", last)
	}
	status, text := c.get("/files/" + last.Output + "/content")
	for i := range lines {
		if n := strings.Count(text, fmt.Sprintf(`"custom_id": "c%d"`, i)); n != 1 {
			t.Errorf("%d: c%d is there %d times", status, i, n)
		}
	}
}

// While a batch runs, its results so far are there. A cancelled one has a line for each request. The limit lets no more
// than the first 50 start, whatever time the test takes.
func TestPartOfABatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const slow = "limits: {openai: {meters: {requests: {rate: 1/h, capacity: 50}}}}\n"
	if err := os.WriteFile(f.file, []byte(slow), 0o600); err != nil {
		t.Fatal(err)
	}
	f.work(t)
	baseURL, _ := f.serve(t, "--limit", "openai")
	c := caller{t, baseURL, "any"}
	made := c.batch(c.file(chatLines(900)))
	part := "/files/file-" + strings.TrimPrefix(made.ID, "batch_") + "-output/content"
	until(t, func() bool {
		_, text := c.get(part)
		return strings.Contains(text, `"custom_id": "c0"`)
	})
	if o := c.read(c.get("/batches/" + made.ID)); o.Status != "in_progress" || o.Output != "" {
		t.Errorf("%+v", o)
	}
	if o := c.read(c.post("/batches/"+made.ID+"/cancel", "")); o.Status != "cancelling" {
		t.Errorf("%+v", o)
	}
	last := c.ended(made.ID)
	_, good := c.get("/files/" + last.Output + "/content")
	_, bad := c.get("/files/" + last.Errors + "/content")
	if n, m := strings.Count(good, "\n"), strings.Count(bad, "batch_cancelled"); last.Status != "cancelled" ||
		n+m != 900 || n != last.Counts.Completed || n == 0 || m == 0 {
		t.Errorf("%d good, %d bad: %+v", n, m, last)
	}
	if status, text := c.post("/batches/"+made.ID+"/cancel", ""); status != http.StatusConflict {
		t.Errorf("%d: %s", status, text)
	}
}

// A tenant sees its own files and batches only, and a model that its key may not use is an error of its line.
func TestTenantsOfBatches(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	key := func(args ...string) string {
		t.Helper()
		code, out, errs := f.run(t, append([]string{"keys", "create", "--config", f.file}, args...)...)
		if code != cli.ExitOK {
			t.Fatal(errs)
		}
		return strings.TrimSpace(out)
	}
	acme, other := key("--tenant", "acme", "--models", "m", "--limit", "tenants:acme"), key("--tenant", "other")
	f.work(t)
	baseURL, _ := f.serve(t, "--limit", "openai")
	a, b := caller{t, baseURL, acme}, caller{t, baseURL, other}
	hidden := strings.ReplaceAll(chatLine("hidden", "m"), `"model":`, `"model":"gpt-9","model":`) +
		strings.ReplaceAll(chatLine("capitals", "gpt-9"), `"model":`, `"Model":"m","model":`)
	file := a.file(chatLine("good", "m") + chatLine("bad", "gpt-9") + hidden)
	last := a.ended(a.batch(file).ID)
	if last.Status != "completed" || last.Counts.Completed != 1 || last.Counts.Failed != 3 {
		t.Errorf("%+v", last)
	}
	if _, text := a.get("/files/" + last.Errors + "/content"); !strings.Contains(text, "model_not_allowed") ||
		strings.Count(text, "invalid_request") < 2 {
		t.Error(text)
	}
	for _, path := range []string{
		"/files/" + file, "/files/" + file + "/content", "/files/" + last.Output + "/content", "/batches/" + last.ID,
	} {
		if status, text := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	if status, text := b.call(http.MethodDelete, "/files/"+file, "", nil); status != http.StatusNotFound {
		t.Errorf("%d: %s", status, text)
	}
	for path, body := range map[string]string{
		"/batches/" + last.ID + "/cancel": "",
		"/batches": fmt.Sprintf(
			`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file),
	} {
		if status, text := b.post(path, body); status != http.StatusNotFound {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	for _, path := range []string{"/files", "/batches", "/files?purpose=batch"} {
		if _, text := b.get(path); !strings.Contains(text, `"data":[]`) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// The requests of a batch take from the budget of its key, and cost what they really did. What the budget has no room
// for waits.
func TestBudgetOfABatch(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const prices = "prices: {m: {output: 1000000}}\n" // one for each token
	if err := os.WriteFile(f.file, []byte(limits+prices), 0o600); err != nil {
		t.Fatal(err)
	}
	create := []string{"keys", "create", "--config", f.file, "--tenant", "acme", "--budget", "100/d"}
	code, out, errs := f.run(t, create...)
	if code != cli.ExitOK {
		t.Fatal(errs)
	}
	f.work(t)
	baseURL, _ := f.serve(t, "--limit", "openai")
	c := caller{t, baseURL, strings.TrimSpace(out)}
	// Each reserves 9, and uses fewer. The budget has room for these eight, whatever comes back.
	large, free := strings.ReplaceAll(chatLine("large", "m"), ":9", ":101"), chatLine("free", "x")
	all := c.batch(c.file(chatLines(8) + large + free))
	last := c.ended(all.ID)
	if last.Status != "completed" || last.Counts.Completed != 8 || last.Counts.Failed != 2 {
		t.Errorf("%+v", last)
	}
	_, text := c.get("/files/" + last.Errors + "/content")
	for _, want := range []string{"request_too_large", "model_without_price"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing: %s", want, text)
		}
	}
	spent := func(id string) (sum int) {
		_, text := c.get("/files/file-" + strings.TrimPrefix(id, "batch_") + "-output/content")
		for _, used := range regexp.MustCompile(`"completion_tokens": ?(\d+)`).FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(used[1])
			sum += n
		}
		return sum
	}
	first, more := spent(all.ID), c.batch(c.file(chatLines(100)))
	// More than eleven estimates, so refunds count. On a busy machine starts come late, and what comes back of them is
	// known roughly. Then further calls may start for a while.
	until(t, func() bool { return first+spent(more.ID) > 60 })
	if night.Part(t, "on a busy machine more calls start") {
		return
	}
	if err := pause.For(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if sum := first + spent(more.ID); first == 0 || sum > 100 {
		t.Errorf("the answers have %d tokens, %d of them in the first batch", sum, first)
	}
}

func TestHostileFilesAndBatches(t *testing.T) {
	t.Parallel()
	everywhere(t, hostile)
}

func hostile(t *testing.T, _ *fleet, serve serving) {
	t.Helper()
	baseURL, _ := serve("--max-file", "100000", "--max-stored", "400000")
	c := caller{t, baseURL, "any"}
	good := c.file(chatLines(2))
	for path, want := range map[string]int{
		"/files/..%2f..%2fetc%2fpasswd": 404, "/files/%2e%2e": 404, "/files/file-x/content": 404, "/files//": 404,
		"/files/" + good + "/more": 405, "/files?limit=0": 400, "/files?order=up": 400, "/batches?limit=101": 400,
		"/batches?after=../x": 400, "/files?after=file-aaaaaaaaaaaaaaaaaaaaaaaaaa": 404, "/filesx": 404,
		"/batches/" + good: 404, "/files/batch_aaaaaaaaaaaaaaaaaaaaaaaaaa/content": 404,
	} {
		if status, text := c.get(path); status != want || !strings.Contains(text, `"error"`) {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	for body, want := range map[string]int{
		`{`: 400, `[]`: 400, `{"input_file_id":7}`: 400, `{"metadata":{"` + strings.Repeat("x", 65) + `":"y"}}`: 400,
		`{"input_file_id":"../x","endpoint":"/v1/chat/completions","completion_window":"24h"}`:         400,
		`{"input_file_id":"` + good + `","endpoint":"/v1/files","completion_window":"24h"}`:            400,
		`{"input_file_id":"` + good + `","endpoint":"/v1/chat/completions","completion_window":"99d"}`: 400,
		`{"input_file_id":"` + good + `","endpoint":"/v1/chat/completions","completion_window":"24h"}` +
			strings.Repeat(" ", 70_000): 400,
	} {
		if status, text := c.post("/batches", body); status != want {
			t.Errorf("%.80s: %d: %s", body, status, text)
		}
	}
	for name, send := range map[string]func() (int, string){
		"413":            func() (int, string) { return c.upload(strings.Repeat("x", 100_001), "purpose", "batch") },
		"400":            func() (int, string) { return c.upload("x", "purpose", "assistants") },
		"400 no purpose": func() (int, string) { return c.upload("x") },
		"400 short lived": func() (int, string) {
			return c.upload("x", "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]", "5")
		},
		"400 no form": func() (int, string) { return c.post("/files", "{}") },
	} {
		if status, text := send(); strconv.Itoa(status) != name[:3] {
			t.Errorf("%s: %d: %s", name, status, text)
		}
	}
	embeddings := strings.ReplaceAll(chatLines(1), "chat/completions", "embeddings")
	for text, want := range map[string]string{
		"": "empty_file", "nonsense\n": "invalid_json_line", chatLines(1) + chatLines(1): "duplicate_custom_id",
		embeddings: "missing_required_parameter",
		strings.ReplaceAll(chatLines(1), "/v1/chat/completions", "http://169.254.169.254/latest"): "invalid_url",
		strings.ReplaceAll(chatLines(1), "POST", "DELETE"):                                        "invalid_method",
		chatLines(1) + `{"custom_id":`:                                                            "invalid_json_line",
	} {
		o := c.ended(c.batch(c.file(text)).ID)
		if o.Status != "failed" || len(o.Faults.Data) != 1 || o.Faults.Data[0].Code != want {
			t.Errorf("%.80q: %+v", text, o)
		}
	}
	var stored []string
	for len(stored) < 5 {
		status, text := c.upload(strings.Repeat("x", 99_000), "purpose", "batch")
		if status == http.StatusBadRequest && strings.Contains(text, "storage_full") {
			break
		}
		stored = append(stored, c.read(status, text).ID)
	}
	if len(stored) < 2 || len(stored) > 4 {
		t.Fatalf("%d files were stored", len(stored))
	}
	c.read(c.call(http.MethodDelete, "/files/"+stored[0], "", nil))
	if status, text := c.upload(strings.Repeat("x", 99_000), "purpose", "batch"); status != http.StatusOK {
		t.Errorf("after one was deleted: %d: %s", status, text)
	}
}

// A batch whose window ends has an error for each request that did not end.
func TestBatchExpires(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	baseURL, _ := f.serve(t, "--limit", "openai")
	c := caller{t, baseURL, "any"}
	made := c.read(c.post("/batches", fmt.Sprintf(
		`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"10s"}`, c.file(chatLines(3)))))
	last := c.ended(made.ID)
	_, text := c.get("/files/" + last.Errors + "/content")
	if last.Status != "expired" || last.Counts.Total != 3 || strings.Count(text, "batch_expired") != 3 {
		t.Errorf("%+v: %s", last, text)
	}
}

// While the store is away an upload has an answer after which its client tries again.
func TestUploadWithoutStore(t *testing.T) {
	t.Parallel()
	f, redis := newFleet(t), testenv.StartRedisServer(t)
	f.env["REDIS_URL"] = redis.URL()
	baseURL, _ := f.serve(t, "--limit", "openai")
	c := caller{t, baseURL, "any"}
	c.file(chatLines(1))
	redis.Kill()
	status, text := c.upload(chatLines(1), "purpose", "batch")
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "records_unavailable") {
		t.Errorf("%d: %s", status, text)
	}
	redis.Restart(t)
	until(t, func() bool {
		status, _ := c.upload(chatLines(1), "purpose", "batch")
		return status == http.StatusOK
	})
}

// Without files the answer names the flag.
func TestNoFiles(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	baseURL, _ := f.serve(t, "--limit", "openai", "--files", "none")
	c := caller{t, baseURL, "any"}
	for _, path := range []string{"/files", "/batches"} {
		if status, text := c.get(path); status != http.StatusNotImplemented || !strings.Contains(text, "--files none") {
			t.Errorf("%d: %s", status, text)
		}
	}
}
