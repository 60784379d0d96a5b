package state_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/fleet/cause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

func queued(q asynq.QueueInfo) []*asynq.QueueInfo {
	q.Queue = "default"
	return []*asynq.QueueInfo{&q}
}

func serving(queue string) []*asynq.ServerInfo {
	return []*asynq.ServerInfo{{Status: "active", Queues: map[string]int{queue: 1}}}
}

func limited(b state.Bucket) []state.Limit {
	b.Bucket, b.Limit = "api", "api"
	return []state.Limit{{Limit: "api", Buckets: []state.Bucket{b}}}
}

// Each way of being stuck is found alone, by its name.
func TestProblems(t *testing.T) {
	t.Parallel()
	long, soon := 7200., 12.
	duty := dispatcher.Duty{Dispatcher: "x"}
	members := []register.Member{{Types: []string{"llm:call"}, Limits: map[string]reservations.Limit{"tenants": {}}}}
	for want, s := range map[string]state.Snapshot{
		"": {
			Queues:  queued(asynq.QueueInfo{Active: 3, Scheduled: 10, Pending: 2, Latency: time.Second}),
			Workers: serving("default"), Duty: duty,
			Members: members, // none has the limit, and only direct callers wait for it
			Limits:  limited(state.Bucket{Waiting: 10, EndIn: &soon, Queues: map[string]int{waitlist.QueueCallers: 10}}),
		},
		"severe queue_paused 1: queue default is paused": {
			Queues: queued(asynq.QueueInfo{Paused: true, Pending: 1}), Workers: serving("default"),
		},
		"severe queue_unserved 1: no worker takes from queue default, only from others": {
			Queues: queued(asynq.QueueInfo{Retry: 1}), Workers: serving("other"),
		},
		"severe no_worker 3: no worker takes from queue default": {
			Queues:  queued(asynq.QueueInfo{Retry: 3}),
			Workers: []*asynq.ServerInfo{{Status: "stopped", Queues: map[string]int{"default": 1}}},
		},
		`severe limit_missing 2: no live worker has limit "example"`: {
			Members: members,
			Batches: []state.Batch{
				{Name: "in.jsonl", Limits: []string{"tenants:a", "example"}, Open: true, Waiting: 2},
				{Limits: []string{"tenants"}, Open: true, Waiting: 2},
				{Limits: []string{"example"}, Waiting: 1},
			},
			Lacked: []register.Lack{{Need: register.Need{Limit: "example"}, Tasks: 1}},
		},
		`severe limit_missing 9: no live worker has limit "api"`: {
			Members: members, Duty: duty,
			Limits: limited(state.Bucket{Waiting: 12, Queues: map[string]int{waitlist.QueueCallers: 3}}),
			Lacked: []register.Lack{{Need: register.Need{Limit: "api"}, Tasks: 2}},
		},
		`severe handler_missing 3: no live worker has handler for task type "mail"`: {
			Members: members,
			Lacked:  []register.Lack{{Need: register.Need{Type: "mail"}, Tasks: 3}, {Need: register.Need{Type: "llm:call"}}},
		},
		`severe provider_missing 3: no live worker has provider for limit "api", with its key`: {
			Members: []register.Member{
				{Types: []string{"llm:call"}, Limits: map[string]reservations.Limit{"api": {}}, Uncalled: []string{"api"}},
				{Types: []string{"mail"}, Limits: map[string]reservations.Limit{"api": {}}},
			},
			Lacked: []register.Lack{
				{Need: register.Need{Type: "llm:call", Limit: "api", Provider: true}, Tasks: 3},
				{Need: register.Need{Type: "mail", Limit: "api", Provider: true}, Tasks: 1},
			},
		},
		"slow blocked 1: limit api is blocked, because a provider refused a call": {
			Limits: limited(state.Bucket{Waiting: 1, Blocked: 30}), Duty: duty,
		},
		"severe quota 1: limit api has stopped, because the provider says that the account has no quota left": {
			Limits: limited(state.Bucket{Waiting: 1, Blocked: 30, Refusing: "quota", RefusingFor: 7200}), Duty: duty,
		},
		"severe key 0: limit api has stopped, because the provider does not accept the key": {
			Limits: limited(state.Bucket{Blocked: 30, Refusing: "key"}), Duty: duty,
		},
		"slow calls_forgotten 1: nothing of limit api starts, because Redis is new or lost its data and calls of " +
			"before may still run": {
			Limits: limited(state.Bucket{Waiting: 1, Forgotten: 30}), Duty: duty,
		},
		"severe store_away 4: the bucket of limit api could not be asked": {
			Limits: limited(state.Bucket{Waiting: 4, FailedIn: 2.5}), Duty: duty,
		},
		"severe bucket_fault 0: the bucket of limit api can't be read": {
			Limits: limited(state.Bucket{Fault: "no number"}), Duty: duty,
		},
		"slow workers_busy 7: no worker is free for queue default": {
			Queues: queued(asynq.QueueInfo{Pending: 7, Latency: 2 * time.Minute}), Workers: serving("default"),
		},
		"slow long_wait 9: the waitlist of limit api is long": {
			Limits: limited(state.Bucket{Waiting: 9, EndIn: &long}), Duty: duty,
		},
		"slow long_wait 8: the waitlist of limit api is long": {
			Limits: func() []state.Limit {
				all := limited(state.Bucket{Waiting: 8, EndIn: &soon})
				all[0].WaitGoal = 10 * time.Second
				return all
			}(), Duty: duty,
		},
		"severe no_dispatcher 4: no dispatcher is on duty, so no task is promoted": {
			Limits: limited(state.Bucket{Waiting: 4}), Workers: serving("default"),
		},
		"news limits_differ 0: limit api has other settings somewhere: worker a": {
			Limits: []state.Limit{{Limit: "api", Differs: []string{"worker a"}}},
		},
		"news died 2: died in the last hour": {DeadLately: 2},
		"news failed 3: of batch b failed":   {Batches: []state.Batch{{Name: "b", Open: true, Failed: 3}}},
		// An unreadable list of workers is one problem, not one of each queue.
		"severe unread 0: workers can't be read (away)": {
			Queues: queued(asynq.QueueInfo{Pending: 1}),
			Faults: []state.Fault{{Part: state.PartWorkers, Err: errors.New("away.\nand more")}},
		},
	} {
		var got []string
		for _, p := range state.Problems(s) {
			text := fmt.Sprintf("%s %s %d: %s", p.Severity, p.Kind, p.Tasks, p.Text)
			if p.Kind == state.KindUnread {
				text += " (" + p.Detail + ")"
			}
			got = append(got, text)
			if p.Remedy == "" {
				t.Errorf("%q does not say what to do", p.Text)
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// Waiting tasks make a pause of their bucket a problem; without them it is none. The worst comes first.
func TestProblemsAreOrdered(t *testing.T) {
	t.Parallel()
	s := state.Snapshot{
		DeadLately: 1, Queues: queued(asynq.QueueInfo{Paused: true, Pending: 1}),
		Limits: []state.Limit{{Buckets: []state.Bucket{{Bucket: "a", Blocked: 9}, {Bucket: "b", Blocked: 9, Waiting: 1}}}},
	}
	var got []cause.Kind
	for _, p := range state.Problems(s) {
		got = append(got, p.Kind)
	}
	if len(got) != 3 || got[0] != cause.KindPaused || got[1] != cause.KindBlocked || got[2] != state.KindDead {
		t.Errorf("%q", got)
	}
}

// Two readers that share a snapshot add their own faults to it.
func TestFaultsOfTwoReaders(t *testing.T) {
	t.Parallel()
	look := state.Snapshot{Faults: make([]state.Fault, 3, 4)}
	one, other := look, look
	for s, part := range map[*state.Snapshot]state.Part{&one: "one", &other: "other"} {
		s.Read(part, func() error { return errors.New("away") })
	}
	if one.Faults[3].Part != "one" || other.Faults[3].Part != "other" {
		t.Errorf("%+v and %+v", one.Faults[3], other.Faults[3])
	}
}
