package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/night"
)

// gatewayRun is a batch that OpenAI's client sent through a gateway. The gateway is killed and started again together
// with the workers.
type gatewayRun struct {
	*world

	gateways []*process
	client   openai.Client
	lines    int
	last     *openai.Batch // as the gateway showed it last
	states   []openai.BatchStatus
}

var gatewayAddress = regexp.MustCompile(`base_url=(\S+)`)

// begin starts the workers and a gateway.
func (r *gatewayRun) begin(t *testing.T) {
	t.Helper()
	r.start(t, fleet)
	p := spawn(t, fmt.Sprintf("gateway%d", len(r.gateways)+1), "headway", r.env(r.redis.URL()), "gateway",
		"--config", r.config, "--listen", "127.0.0.1:0", "--limit", "openai")
	r.gateways = append(r.gateways, p)
	var address []string
	await(t, "the gateway listens", func() (bool, string) {
		text := p.log(t)
		address = gatewayAddress.FindStringSubmatch(text)
		return address != nil, text
	})
	r.client = openai.NewClient(option.WithBaseURL(address[1]), option.WithAPIKey("any"), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
}

// send uploads a file, and creates its batch.
func (r *gatewayRun) send(t *testing.T, text string) {
	t.Helper()
	file, err := r.client.Files.New(t.Context(), openai.FileNewParams{
		File: openai.File(strings.NewReader(text), "in.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.last, err = r.client.Batches.New(t.Context(), openai.BatchNewParams{
		InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions,
		CompletionWindow: openai.BatchNewParamsCompletionWindow24h,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.states = append(r.states, r.last.Status)
}

// look asks for the batch. Its states and counts only go forwards.
func (r *gatewayRun) look(t *testing.T) *openai.Batch {
	t.Helper()
	b, err := r.client.Batches.Get(t.Context(), r.last.ID)
	if err != nil {
		t.Fatal(err)
	}
	order := []openai.BatchStatus{
		openai.BatchStatusValidating, openai.BatchStatusInProgress, openai.BatchStatusFinalizing,
		openai.BatchStatusCompleted,
	}
	now, before := b.RequestCounts, r.last.RequestCounts
	known := b.Status == openai.BatchStatusValidating || now.Total == int64(r.lines)
	if !known || slices.Index(order, b.Status) < slices.Index(order, r.last.Status) || now.Completed < before.Completed ||
		now.Failed < before.Failed || now.Completed+now.Failed > now.Total {
		t.Errorf("after %s\nthere is %s", r.last.RawJSON(), b.RawJSON())
	}
	if b.Status != r.last.Status {
		r.states = append(r.states, b.Status)
	}
	r.last = b
	return b
}

// awaitEnded waits until at least n requests have ended, according to the gateway, and others are about to run. After a
// kill the workers may have ended all that the dead gateway had enqueued before another one has its batch.
func (r *gatewayRun) awaitEnded(t *testing.T, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d requests have ended", n), func() (bool, string) {
		b, i := r.look(t), r.info(t)
		return b.RequestCounts.Completed+b.RequestCounts.Failed >= int64(n) && i.Active > 0 && i.Scheduled+i.Pending > 0,
			b.RawJSON() + describe(i)
	})
}

// killAll ends the workers and the gateway at once, like kill -9. Then the leases of their tasks are moved back by two
// minutes: asynq waits for more than one before it delivers them again.
func (r *gatewayRun) killAll(t *testing.T) {
	t.Helper()
	running := append(slices.Clone(r.workers[len(r.workers)-fleet:]), r.gateways[len(r.gateways)-1])
	for _, p := range running {
		_ = p.cmd.Process.Kill() // waited for below
	}
	for _, p := range running {
		p.kill()
	}
	client := redis.NewClient(&redis.Options{Addr: r.redis.Addr()})
	defer func() { _ = client.Close() }()
	leases, err := client.ZRangeWithScores(t.Context(), "asynq:{"+queue+"}:lease", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases {
		lease.Score -= 2 * time.Minute.Seconds()
		if err = client.ZAdd(t.Context(), "asynq:{"+queue+"}:lease", lease).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("killed with %d calls under way: %s", len(leases), describe(r.info(t)))
	if len(leases) == 0 {
		t.Error("no worker ran a task when it was killed")
	}
}

// names returns the custom_id of each line of a file of results.
func (r *gatewayRun) names(t *testing.T, file string) (names []string) {
	t.Helper()
	res, err := r.client.Files.Content(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		var l answerLine
		if err = json.Unmarshal(lines.Bytes(), &l); err != nil || l.Response == nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		names = append(names, l.CustomID)
	}
	if err = lines.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// refusedEvery is how many lines there are for each that the provider refuses.
const refusedEvery = 40

// The gateway and all workers are killed twice while a batch of the gateway runs. In the end each request has one line
// in the output or the error file. What the gateway says of the batch is true at each look. The limit is kept by the
// clock of the store, and at the provider. The provider has a second more of room: this machine may be slow.
func TestGatewayBatchKilledTwice(t *testing.T) {
	t.Parallel()
	night.Only(t, "kills processes at moments, and takes 40 s")
	const lines = 2000
	w := newWorld(t, setting{
		rate: 120, capacity: 60, provider: []string{"--requests-rate=120", "--requests-capacity=60", "--slack=1s"},
	})
	r := &gatewayRun{world: w, lines: lines}
	text := strings.Split(strings.TrimSpace(smallChats(0, lines)), "\n")
	for i := 0; i < lines; i += refusedEvery {
		text[i] = strings.Replace(text[i], fmt.Sprintf(`"Count to %d."`, i), "7", 1)
	}
	r.begin(t)
	r.send(t, strings.Join(text, "\n"))
	for _, ended := range []int{lines / 5, lines / 2} {
		r.awaitEnded(t, ended)
		r.killAll(t)
		r.begin(t)
	}
	await(t, "the end of the batch", func() (bool, string) {
		b := r.look(t)
		return b.Status == openai.BatchStatusCompleted, b.RawJSON()
	})
	refused := (lines + refusedEvery - 1) / refusedEvery
	good, bad := r.names(t, r.last.OutputFileID), r.names(t, r.last.ErrorFileID)
	all := slices.Sorted(slices.Values(slices.Concat(good, bad)))
	once := slices.Compact(slices.Clone(all))
	if len(all) != lines || len(once) != lines || len(bad) != refused {
		t.Errorf("%d good and %d bad lines with %d names, wanted %d lines, %d of them bad", len(good), len(bad), len(once),
			lines, refused)
	}
	if c := r.last.RequestCounts; int(c.Completed) != len(good) || int(c.Failed) != len(bad) {
		t.Errorf("the gateway counted %+v", c)
	}
	if r.states[0] != openai.BatchStatusValidating || !slices.Contains(r.states, openai.BatchStatusInProgress) {
		t.Errorf("the states were %v", r.states)
	}
	if _, err := r.inspector.DeleteAllArchivedTasks(queue); err != nil { // the refused ones
		t.Fatal(err)
	}
	f := r.finish(t)
	if f.Violations != 0 || f.tasks != lines-refused {
		t.Errorf("%d violations, %d tasks at the provider: %v", f.Violations, f.tasks, f.Refusals)
	}
	t.Logf("%d of %d requests have one line (%d of them bad), states %v, %d calls were made twice, %d violations",
		len(once), lines, len(bad), r.states, f.repeated, f.Violations)
}
