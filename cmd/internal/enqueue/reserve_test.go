package enqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
)

// The command reserves tokens by overrides, like the workers.
func TestReserveGoesByOverrides(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	env := map[string]string{"REDIS_URL": "redis://" + server.Addr(), "MONGODB_URI": testenv.MongoURI(t)}
	buckets, err := connect.Mongo(t.Context(), func(k string) string { return env[k] }, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = buckets.Close(t.Context()) }()
	for _, o := range []reservations.Override{
		{Limit: "openai", Meter: "requests", Rate: 1, Period: time.Hour},
		{Limit: "gone", Meter: "requests", Rate: 1, Period: time.Hour},
	} {
		if err = buckets.SetOverride(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	batch := write(t, "batch.jsonl", line("a", 5)+"\n"+line("b", 5)+"\n"+line("c", 5))
	c := callWith(t, server, env, "", "batch", batch, "--limit", "openai", "--config", repositoryConfig)
	if c.code != cli.ExitOK || !strings.Contains(c.err, `warning: override gone.requests`) {
		t.Fatalf("exit %d: %s%s", c.code, c.out, c.err)
	}
	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: server.Addr()})
	defer func() { _ = inspector.Close() }()
	waiting, err := inspector.ListScheduledTasks("default")
	if err != nil || len(waiting) != 3 {
		t.Fatalf("%d tasks, %v", len(waiting), err)
	}
	if last := time.Until(waiting[2].NextProcessAt); last < 100*time.Minute {
		t.Errorf("the last task waits %v, by one an hour it is two hours", last)
	}
}
