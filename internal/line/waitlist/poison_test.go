package waitlist_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/class"
	"github.com/headway-go/headway/internal/line/waitlist"
)

const poisonRoot = "headway:{wait}:"

// poisons are malformed records that something else than Headway left in Redis, by what is malformed. Each concerns the
// bucket "bad" or the task "default/bad" alone.
func poisons() map[string]func(ctx context.Context, c *redis.Client) {
	record := poisonRoot + "task:default/bad"
	lane := poisonRoot + "list:bad\x00default\x00\x00"
	return map[string]func(ctx context.Context, c *redis.Client){
		"tokens are no JSON":   func(ctx context.Context, c *redis.Client) { c.HSet(ctx, record, "tokens", "{") },
		"tokens are no object": func(ctx context.Context, c *redis.Client) { c.HSet(ctx, record, "tokens", "[1]") },
		"tokens are text": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, record, "tokens", `{"requests":"x"}`)
		},
		"tokens are too large": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, record, "tokens", `{"requests":1e999}`)
		},
		"tokens are missing":      func(ctx context.Context, c *redis.Client) { c.HDel(ctx, record, "tokens") },
		"a place without numbers": func(ctx context.Context, c *redis.Client) { c.HSet(ctx, record, "in:bad", "a b c") },
		"a place that is cut off": func(ctx context.Context, c *redis.Client) { c.HSet(ctx, record, "in:bad", "1 0") },
		"a place of NaN": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, record, "in:bad", "1 nan nan")
		},
		"no place":             func(ctx context.Context, c *redis.Client) { c.HDel(ctx, record, "in:bad") },
		"urgent is missing":    func(ctx context.Context, c *redis.Client) { c.HDel(ctx, record, "urgent") },
		"the record is a text": func(ctx context.Context, c *redis.Client) { c.Del(ctx, record); c.Set(ctx, record, "x", 0) },
		"the record is gone":   func(ctx context.Context, c *redis.Client) { c.Del(ctx, record) },
		"the queue is escaped": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"parts:bad", "%zz", 1)
			c.ZAdd(ctx, poisonRoot+"list:bad\x00%zz", redis.Z{Member: "x"})
		},
		"the list is a text": func(ctx context.Context, c *redis.Client) { c.Del(ctx, lane); c.Set(ctx, lane, "x", 0) },
		"the parts are a text": func(ctx context.Context, c *redis.Client) {
			c.Del(ctx, poisonRoot+"parts:bad")
			c.Set(ctx, poisonRoot+"parts:bad", "x", 0)
		},
		"the sums are text": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"sums:bad", "requests", "x")
		},
		"the meta is a text": func(ctx context.Context, c *redis.Client) {
			c.Del(ctx, poisonRoot+"meta:bad")
			c.Set(ctx, poisonRoot+"meta:bad", "x", 0)
		},
		"offset is text": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"meta:bad", "offset", "x")
		},
		"offset is a fraction": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"meta:bad", "offset", "1e30")
		},
		"failed_until is text": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"meta:bad", "failed_until", "x")
		},
		"a tag is text":  func(ctx context.Context, c *redis.Client) { c.HSet(ctx, poisonRoot+"tags:bad", "\x00", "x") },
		"a turn is text": func(ctx context.Context, c *redis.Client) { c.HSet(ctx, poisonRoot+"meta:bad", "turn:", "x") },
		"the turns of tenants are a text": func(ctx context.Context, c *redis.Client) {
			c.Set(ctx, poisonRoot+"turns:bad\x00", "x", 0)
		},
		"the ring is a text": func(ctx context.Context, c *redis.Client) {
			c.Del(ctx, poisonRoot+"ring:bad\x00default\x00")
			c.Set(ctx, poisonRoot+"ring:bad\x00default\x00", "x", 0)
		},
		"a part is no number": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"parts:bad", "default\x00", "x")
		},
		"an unknown part": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"parts:bad", "other\x00class", "7", "gone", "3")
		},
		"virtual is text": func(ctx context.Context, c *redis.Client) { c.HSet(ctx, poisonRoot+"meta:bad", "virtual", "x") },
		"a promoted task no task": func(ctx context.Context, c *redis.Client) {
			c.ZAdd(ctx, poisonRoot+"promoted:bad", redis.Z{Score: 1, Member: "noslash"})
		},
		"promoted is a text": func(ctx context.Context, c *redis.Client) { c.Set(ctx, poisonRoot+"promoted:bad", "x", 0) },
		"a timer that is no task": func(ctx context.Context, c *redis.Client) {
			c.ZAdd(ctx, poisonRoot+"timers", redis.Z{Score: 1, Member: "anoslash"})
		},
		"a timer without a letter": func(ctx context.Context, c *redis.Client) {
			c.ZAdd(ctx, poisonRoot+"timers", redis.Z{Score: 1, Member: ""})
		},
		"a timer of a queue %zz": func(ctx context.Context, c *redis.Client) {
			c.ZAdd(ctx, poisonRoot+"timers", redis.Z{Score: 1, Member: "a%zz/id"})
		},
		"a timer without a place": func(ctx context.Context, c *redis.Client) {
			c.HDel(ctx, record, "in:bad")
			c.ZAdd(ctx, poisonRoot+"timers", redis.Z{Score: 1, Member: "adefault/bad"})
		},
		"a timer with bad tokens": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, record, "tokens", "{")
			c.ZAdd(ctx, poisonRoot+"timers", redis.Z{Score: 1, Member: "adefault/bad"})
		},
		"an index of unknown buckets": func(ctx context.Context, c *redis.Client) {
			c.ZAdd(ctx, poisonRoot+"index", redis.Z{Score: 1, Member: "other"})
		},
		"the state is no JSON": func(ctx context.Context, c *redis.Client) {
			c.HSet(ctx, poisonRoot+"meta:bad", "state", "{")
		},
		"the flows are a text": func(ctx context.Context, c *redis.Client) {
			c.Del(ctx, poisonRoot+"flows:bad\x00\x00")
			c.Set(ctx, poisonRoot+"flows:bad\x00\x00", "x", 0)
		},
		"the flow counts are a text": func(ctx context.Context, c *redis.Client) {
			c.Set(ctx, poisonRoot+"waiting:bad", "x", 0)
		},
	}
}

// A dispatcher whose end of duty can't be read is not on duty.
func TestPoisonedDuty(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, f fixture) {
		t.Helper()
		f.check(f.client.HSet(t.Context(), poisonRoot+"dispatcher", "id", "d", "until", "x").Err())
		if id, until, _, err := f.OnDuty(t.Context()); err != nil || id != "" || !until.IsZero() {
			t.Errorf("on duty: %q until %v, %v", id, until, err)
		}
		if look, err := f.Look(t.Context(), duty("e"), nil); err != nil || !look.OnDuty {
			t.Errorf("look: %+v, %v", look, err)
		}
	})
}

// A malformed record of one bucket keeps nothing back in others, whatever is done with its task.
func TestPoisonInRedisKeepsNothingBack(t *testing.T) {
	t.Parallel()
	for name, poison := range poisons() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, f fixture) {
				t.Helper()
				bad := waitlist.Entry{
					Task: task("bad"), Bucket: "bad", Turns: class.Turns{Cost: 1, Flow: "f"},
					Tokens: map[string]float64{"requests": 1},
				}
				f.join(bad)
				f.join(entries("good")...)
				poison(t.Context(), f.client)
				promoted := false
				for range 5 {
					look, err := f.Look(t.Context(), f.duty("d"), nil)
					if err != nil {
						t.Errorf("look: %v", err)
						break
					}
					var plans []waitlist.Plan
					for _, d := range look.Due {
						p := waitlist.Plan{Bucket: d.Bucket, Planned: d.Planned, Next: time.Second}
						for _, h := range d.Heads {
							p.Promote = append(p.Promote, h.Task)
							promoted = promoted || h.Task == task("good")
						}
						plans = append(plans, p)
					}
					if _, _, err := f.Promote(t.Context(), "d", plans); err != nil {
						t.Errorf("promote: %v", err)
					}
					if f.server != nil {
						f.pass(2 * time.Second)
					}
				}
				if !promoted {
					t.Error("the good task was not promoted")
				}
				good := waitlist.Answer{Bucket: "openai", Generation: 1, Version: 1, Store: time.Now(), State: []byte("{}")}
				worse := good
				worse.Bucket, worse.Sooner, worse.Joins = "bad", true, true
				reported := waitlist.Reported{Answers: []waitlist.Answer{worse, good}, Begun: tasks("bad", "good")}
				if err := f.Report(t.Context(), reported); err != nil {
					t.Errorf("report: %v", err)
				}
				if f.arrive("good").State != waitlist.StateNew {
					t.Error("the good task began, and still waits")
				}
				if _, err := f.AllPromoted(t.Context()); err != nil {
					t.Errorf("all promoted: %v", err)
				}
				if _, _, err := f.Lists(t.Context(), "", 10); err != nil {
					t.Errorf("lists: %v", err)
				}
				if _, err := f.Position(t.Context(), task("bad")); err != nil {
					t.Errorf("position: %v", err)
				}
				if _, err := f.List(t.Context(), "bad"); err != nil {
					t.Errorf("list: %v", err)
				}
				failure := waitlist.Failure{Away: true, Shortest: time.Minute, Longest: time.Minute}
				if _, _, err := f.Fail(t.Context(), "bad", failure); err != nil {
					t.Errorf("fail: %v", err)
				}
				failure.Away = false
				if _, _, err := f.Fail(t.Context(), "bad", failure); err != nil {
					t.Errorf("fault: %v", err)
				}
				if err := f.Park(t.Context(), tasks("bad")); err != nil {
					t.Errorf("park: %v", err)
				}
				if err := f.Recover(t.Context()); err != nil {
					t.Errorf("recover: %v", err)
				}
				if _, err := f.Join(t.Context(), waitlist.Reported{}, bad, entry("good2")); err != nil {
					t.Errorf("join: %v", err)
				}
				if f.arrive("good2").State != waitlist.StateWaiting {
					t.Error("the second good task did not join")
				}
				if _, err := f.Leave(t.Context(), tasks("bad", "good2")); err != nil {
					t.Errorf("leave: %v", err)
				}
				if f.arrive("good2").State != waitlist.StateNew {
					t.Error("the second good task did not leave")
				}
			})
		})
	}
}
