package peers_test

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/test/testenv"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers"
)

const patience = time.Minute

// expectation is the properties of a peer that need no measurement.
type expectation struct {
	// tasks is the number of its tasks. A peer whose refused tasks need seconds gets only tasks that start at once.
	tasks int
	// once is true if a task is delivered once, loose if some windows may exceed the limit.
	once, loose bool
	// mongo is the least number of MongoDB commands per task.
	mongo int
}

func expectations() map[string]expectation {
	return map[string]expectation{
		"asynq-raw":           {tasks: 60, once: true, loose: true},
		"asynq-recipe":        {tasks: 10, once: true, loose: true},
		"asynq-recipe-tuned":  {tasks: 60},
		"asynq-gcra":          {tasks: 10, once: true},
		"asynq-gcra-tuned":    {tasks: 60},
		"blocking-wait":       {tasks: 60, once: true},
		"blocking-redis-rate": {tasks: 60, once: true},
		"spinning-mongo":      {tasks: 60, once: true, mongo: 1},
		"bullmq-per-second":   {tasks: 60, once: true, loose: true},
		"bullmq-spaced":       {tasks: 60, once: true},
	}
}

func TestEveryPeerRunsEachTaskOnce(t *testing.T) {
	t.Parallel()
	expected := expectations()
	for _, c := range peers.All() {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			want, ok := expected[c.Name()]
			if !ok {
				t.Fatalf("nothing is expected of %s: add it to expectations", c.Name())
			}
			runOnce(t, c, want)
		})
	}
	if len(expected) != len(peers.All()) {
		t.Errorf("%d peers, %d expected", len(peers.All()), len(expected))
	}
}

func runOnce(t *testing.T, c contest.Contestant, want expectation) {
	t.Helper()
	limit := contest.Limit{Key: "fast", Rate: 100, Burst: 10}
	judge, url := newJudge(t, want.tasks)
	env := contest.Env{
		Contestant: c.Name(), Work: "smoke", RedisURL: testenv.Redis(t), ProviderURL: url, Limits: []contest.Limit{limit},
		Slots: 10, Workers: 2,
	}
	env.MongoURI, env.Database = testenv.Mongo(t)
	out := &lines{ready: make(chan struct{}), workers: env.Workers}
	probe := contest.NewProbe(env, out)
	producer, err := c.Producer(t.Context(), env, probe)
	if err != nil {
		t.Fatal(err)
	}
	tasks := make([]contest.Task, want.tasks)
	for i := range tasks {
		tasks[i] = contest.Task{Seq: i, Key: limit.Key, Reserved: 1, Used: 1}
	}
	if err = producer.Enqueue(t.Context(), tasks); err != nil {
		t.Error(err)
	}
	if err = producer.Close(); err != nil {
		t.Error(err)
	}
	probe.Close()
	stop := startFleet(t, c, env, out)
	await(t, out.ready, "all workers ready")
	await(t, judge.done, "all tasks run")
	stop()
	check(t, want, limit, judge, out)
}

func await(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("not %s within %v", what, patience)
	}
}

func check(t *testing.T, want expectation, limit contest.Limit, judge *judge, out *lines) {
	t.Helper()
	if len(judge.arrivals) != want.tasks || len(judge.calls) != want.tasks {
		t.Errorf("%d calls of %d tasks, wanted %d of each", len(judge.arrivals), len(judge.calls), want.tasks)
	}
	delivered, counts := out.sum(t)
	if delivered < want.tasks || want.once && delivered != want.tasks {
		t.Errorf("%d deliveries of %d tasks", delivered, want.tasks)
	}
	if counts[contest.CountMongo] < int64(want.mongo*want.tasks) {
		t.Errorf("%d commands to MongoDB, wanted %d a task or more", counts[contest.CountMongo], want.mongo)
	}
	// Half of the ideal time, because the bucket fills while the first calls are sent, which takes long on a busy
	// machine. Without a limit a tenth.
	least := time.Duration((float64(want.tasks) - limit.Burst) / limit.Rate / 2 * float64(time.Second))
	if took := judge.took(); !want.loose && took < least {
		t.Errorf("%d tasks within %v, the limit allows that in %v", want.tasks, took, 2*least)
	}
}

func TestWorksThatPeersRefuse(t *testing.T) {
	t.Parallel()
	limit := contest.Limit{Key: "fast", Rate: 100, Burst: 10}
	works := []contest.Work{
		{Name: "free"},
		{Name: "limited", Limits: []contest.Limit{limit}},
		{Name: "mixed", Limits: []contest.Limit{limit, {Key: "slow", Rate: 4, Burst: 4}}},
		{Name: "over", Limits: []contest.Limit{limit}, Overestimated: true},
	}
	refused := map[string][]string{
		"asynq-raw":         {"limited", "mixed", "over"},
		"bullmq-per-second": {"mixed", "over"},
		"bullmq-spaced":     {"free", "mixed", "over"},
	}
	for _, c := range peers.All() {
		var got []string
		for _, w := range works {
			if picky, ok := c.(contest.Picky); ok && picky.Refuses(w) != "" {
				got = append(got, w.Name)
			}
		}
		if !slices.Equal(got, refused[c.Name()]) {
			t.Errorf("%s refuses %q, wanted %q", c.Name(), got, refused[c.Name()])
		}
	}
}

func TestPeersAreNamedAndDescribed(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	for _, c := range peers.All() {
		if !name.MatchString(c.Name()) || seen[c.Name()] {
			t.Errorf("name %q, wanted lower case with dashes, and unique", c.Name())
		}
		seen[c.Name()] = true
		if len(c.About()) < 20 {
			t.Errorf("%s: about %q is too short", c.Name(), c.About())
		}
	}
}
