package e2e_test

import (
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/test/testenv"
)

// The exit codes of the commands.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 3
)

// nowhere is a port without a server (tcpmux).
const nowhere = "127.0.0.1:1"

const manyFaults = `limits:
  openai: {meters: {requests: 500/fortnight, tokens: {rate: 10/s, max_reserved: -1}}}
concurency: 3
shutdown_timeout: 30
`

// want fails unless the command ended with this code and wrote all of these texts to standard error.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, wanted %d: %s%s", r.code, code, r.out, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.err, text) {
			t.Errorf("%q is missing in: %s", text, r.err)
		}
	}
	if strings.Contains(r.out+r.err, "hunter2") {
		t.Errorf("shows a password: %s%s", r.out, r.err)
	}
	if strings.Contains(r.err, "goroutine ") {
		t.Errorf("panics: %s", r.err)
	}
}

// Invalid settings are reported before any service is called.
func TestErrorsOfSettings(t *testing.T) {
	t.Parallel()
	env := []string{"REDIS_URL=redis://" + nowhere, "MONGODB_URI=mongodb://" + nowhere, "OPENAI_API_KEY=test"}
	bad := writeFile(t, "bad.yaml", manyFaults)
	good := writeFile(t, "good.yaml", "limits: {openai: {meters: {requests: {rate: 50/s, capacity: 5}}}}")
	small := writeFile(t, "small.yaml", "limits: {openai: {meters: {tokens: {rate: 5/s, capacity: 5, max_reserved: 5}}}}")
	noYAML := writeFile(t, "no.yaml", "limits: [")
	faults := []string{bad, "limits.openai.meters.requests", "fortnight", "concurency", "shutdown_timeout"}
	for name, tc := range map[string]struct {
		program string
		args    []string
		want    []string
	}{
		"worker, no config": {"headway", []string{"worker", "--config", "none.yaml"}, []string{"none.yaml", "--config"}},
		"check, no config":  {"headway", []string{"check", "--config", "none.yaml"}, []string{"none.yaml", "--config"}},
		"enqueue, no config": {
			"headway", []string{"batch", "-", "--limit", "openai", "--config", "none.yaml"}, []string{"none.yaml", "--config"},
		},
		"worker, many faults":  {"headway", []string{"worker", "--config", bad}, faults},
		"check, many faults":   {"headway", []string{"check", "--config", bad}, faults},
		"enqueue, many faults": {"headway", []string{"enqueue", "Hi", "--limit", "openai", "--config", bad}, faults},
		"worker, no YAML":      {"headway", []string{"worker", "--config", noYAML}, []string{noYAML, "not valid YAML"}},
		"enqueue, unknown limit": {
			"headway",
			[]string{"enqueue", "Hi", "--limit", "opnai", "--config", good},
			[]string{"unknown limit", `"opnai"`, `"openai"`},
		},
		"enqueue, charge": {
			"headway",
			[]string{"batch", "-", "--limit", "openai", "--config", small},
			[]string{"line 1", "line 2", "more than can ever be served"},
		},
		"enqueue, broken line": {
			"headway",
			[]string{"batch", "-", "--limit", "openai", "--config", good},
			[]string{"line 3", "nothing was enqueued", "--skip-invalid"},
		},
		"worker, unknown command": {"headway", []string{"rum"}, []string{"rum"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdin := smallChats(1, 2)
			if strings.Contains(name, "broken") {
				stdin += "{\n"
			}
			command(t, tc.program, env, stdin, tc.args...).want(t, exitUsage, tc.want...)
		})
	}
}

func TestErrorsOfServices(t *testing.T) {
	t.Parallel()
	good := writeFile(t, "good.yaml", "limits: {openai: {meters: {requests: {rate: 50/s, capacity: 5}}}}")
	redis := testenv.StartRedisServer(t)
	away := "MONGODB_URI=mongodb://user:hunter2@" + nowhere + "/headway"
	for name, tc := range map[string]struct {
		env     []string
		program string
		args    []string
		want    []string
	}{
		"worker, no Redis": {
			[]string{"REDIS_URL=redis://user:hunter2@" + nowhere, away},
			"headway",
			[]string{"worker"},
			[]string{"REDIS_URL", nowhere},
		},
		"worker, no MongoDB": {
			[]string{"REDIS_URL=" + redis.URL(), away}, "headway", []string{"worker"}, []string{"MONGODB_URI", nowhere},
		},
		"check, neither": {
			[]string{"REDIS_URL=redis://user:hunter2@" + nowhere, away},
			"headway",
			[]string{"check"},
			[]string{"REDIS_URL", "MONGODB_URI", nowhere},
		},
		"enqueue, no Redis": {
			[]string{"REDIS_URL=redis://user:hunter2@" + nowhere},
			"headway",
			[]string{"enqueue", "Hi", "--limit", "openai"},
			[]string{"REDIS_URL", nowhere},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append([]string{"OPENAI_API_KEY=test"}, tc.env...)
			command(t, tc.program, env, "", append(tc.args, "--config", good)...).want(t, exitUnavailable, tc.want...)
		})
	}
}

// A worker that starts while MongoDB is down ends with an error. No task is lost, and the next worker runs them.
func TestWorkerStartsWhileStoreIsDown(t *testing.T) {
	t.Parallel()
	const tasks = 20
	s := requestsOnly
	s.cutMongo = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.mongoProxy.Cut()
	r := command(t, "headway", w.env(w.redisURL), "", "worker", "--config", w.config)
	r.want(t, exitUnavailable, "MONGODB_URI", w.mongoProxy.Addr())
	if i := w.info(t); i.Pending+i.Scheduled != tasks {
		t.Errorf("after the failed start: %s", describe(i))
	}
	w.mongoProxy.Restore()
	w.start(t, 1)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
}

// A task that no worker can read is archived at once with its error. A task whose limit or type the worker lacks waits
// for another worker, without a retry. Other tasks go on.
func TestTasksThatCanNeverRun(t *testing.T) {
	t.Parallel()
	const good, unserved = 10, 2
	w := newWorld(t, requestsOnly)
	other := writeFile(t, "other.yaml",
		"limits: {anthropic: {meters: {requests: 50/s}}, openai: {meters: {requests: {rate: 50/s, capacity: 5}}}}")
	command(t, "headway", w.env(w.redis.URL()), smallChats(1, 1), "batch", "-", "--limit", "anthropic", "--config", other).
		want(t, 0) // the workers have no such limit
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: w.redis.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	for name, payload := range map[string]string{"llm:call": "no JSON", "nobody:knows": "{}"} {
		if _, err := client.EnqueueContext(t.Context(), asynq.NewTask(name, []byte(payload)),
			asynq.Queue(queue)); err != nil {
			t.Fatal(err)
		}
	}
	w.enqueue(t, smallChats(1, good))
	w.start(t, 1)
	w.awaitCompleted(t, good)
	await(t, "one is archived, the others wait", func() (bool, string) {
		i := w.info(t)
		return i.Archived == 1 && i.Retry == unserved, describe(i)
	})
	archived, err := w.inspector.ListArchivedTasks(queue)
	if err != nil || !strings.Contains(archived[0].LastErr, "invalid character") || archived[0].Retried != 0 {
		t.Errorf("archived: %+v, %v", archived, err)
	}
	waiting, err := w.inspector.ListRetryTasks(queue)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, task := range waiting {
		reasons = append(reasons, task.LastErr)
		if task.Retried != 0 {
			t.Errorf("task of type %s was retried %d times", task.Type, task.Retried)
		}
	}
	all := strings.Join(reasons, "\n")
	for _, text := range []string{"anthropic", "nobody:knows"} {
		if !strings.Contains(all, text) {
			t.Errorf("%q is missing in the reasons of waiting tasks:\n%s", text, all)
		}
	}
	if _, err = w.inspector.DeleteAllArchivedTasks(queue); err != nil { // finish fails if the archive is not empty
		t.Fatal(err)
	}
	if _, err = w.inspector.DeleteAllRetryTasks(queue); err != nil {
		t.Fatal(err)
	}
	f := w.finish(t)
	f.wantOnce(t, good)
}

// With --skip-invalid a batch is enqueued without its invalid line.
func TestSkipInvalid(t *testing.T) {
	t.Parallel()
	redis := testenv.StartRedisServer(t)
	good := writeFile(t, "good.yaml", "limits: {openai: {meters: {requests: {rate: 50/s, capacity: 5}}}}")
	uri, database := testenv.Mongo(t)
	env := []string{"REDIS_URL=" + redis.URL(), "MONGODB_URI=" + mongoURI(t, uri, database, "")}
	r := command(t, "headway", env, smallChats(1, 2)+"{\n"+smallChats(3, 2),
		"batch", "-", "--limit", "openai", "--config", good, "--skip-invalid")
	r.want(t, exitFailed, "line 3")
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = inspector.Close() }()
	if info, err := inspector.GetQueueInfo(queue); err != nil || info.Pending+info.Scheduled != 4 {
		t.Errorf("queue %+v, error %v; wanted 4 tasks", info, err)
	}
}

func TestMongoURI(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ uri, host, want string }{
		{"mongodb://127.0.0.1:1", "", "mongodb://127.0.0.1:1/db?"},
		{"mongodb://127.0.0.1:1/", "h:2", "mongodb://h:2/db?directConnection=true"},
		{"mongodb://u:p@a:1,b:2/old?replicaSet=rs", "", "mongodb://u:p@a:1,b:2/db?replicaSet=rs&authSource=old"},
		{"mongodb+srv://u:p@a/?authSource=x", "h:2", "mongodb://u:p@h:2/db?authSource=x&directConnection=true"},
	} {
		got := mongoURI(t, tc.uri, "db", tc.host)
		if got != tc.want {
			t.Errorf("%s: %s, wanted %s", tc.uri, got, tc.want)
		}
	}
}
