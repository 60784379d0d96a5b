package fleets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// claimed is a task with charges that a hostile program has made.
type claimed struct {
	N      int                   `json:"n"`
	Series string                `json:"series"`
	List   []reservations.Charge `json:"list"`
	// Refused is how often a provider that the program has chosen refuses the call.
	Refused int `json:"refused,omitempty"`
}

func (claimed) TaskType() string { return "claimed" }

func (c claimed) Charges() []reservations.Charge { return c.List }

func (c claimed) TaskOptions() tasks.Options { return tasks.Options{ID: c.id()} }

func (c claimed) id() string { return fmt.Sprintf("%s%05d", c.Series, c.N) }

// plain enqueues the task as a program without Headway does, with headers that it has made by hand.
func (f *fleet) plain(c claimed) {
	payload, _ := json.Marshal(c)
	charges, _ := json.Marshal(c.List)
	task := asynq.NewTaskWithHeaders(c.TaskType(), payload, map[string]string{
		"headway-version": "1", "headway-charges": string(charges),
	})
	client := asynq.NewClientFromRedisClient(f.Client())
	if _, err := client.EnqueueContext(f.Context(), task, asynq.TaskID(c.id()), asynq.MaxRetry(40)); err != nil {
		f.t.Errorf("enqueue %s: %v", c.id(), err)
	}
}

// A tenant claims whatever a task can claim. The 15 tasks of another tenant share the API with it half and half, or as
// the row says.
func TestWhatATenantClaims(t *testing.T) {
	const many, few = 200, 15
	requests := reservations.Tokens{"requests": 1}
	own := func(c reservations.Charge) []reservations.Charge {
		c.Limit, c.Tokens = "api", requests
		return []reservations.Charge{{Limit: "tenants", Key: "rogue", Tokens: requests}, c}
	}
	bounded := func(l *reservations.Limit) {
		l.Priorities = map[string]float64{"fast": 100, "slow": 1}
		l.Allow = map[string][]string{"fast": {"vip"}, "urgent": {"vip"}}
		l.Meters[0].Headroom, l.OrdinaryShare = 2, 0.1
	}
	urgent := func(l *reservations.Limit) { l.Meters[0].Headroom, l.OrdinaryShare = 1, 0.1 }
	for name, tc := range map[string]struct {
		api   func(*reservations.Limit)
		rogue func(n int) []reservations.Charge
		quiet reservations.Charge // of the other tenant
		times int                 // how often each call of the rogue is refused by a service of its own
	}{
		"flows": {rogue: func(n int) []reservations.Charge { return own(reservations.Charge{Flow: fmt.Sprint("f", n)}) }},
		"flows of one weight": {
			api:   func(l *reservations.Limit) { l.Weights = map[string]float64{"vip": 1000} },
			rogue: func(int) []reservations.Charge { return own(reservations.Charge{Flow: "vip"}) },
		},
		"the flow of a tenant": {
			api:   func(l *reservations.Limit) { l.Weights = map[string]float64{"tenants:vip": 1000} },
			rogue: func(int) []reservations.Charge { return own(reservations.Charge{Flow: "tenants:vip"}) },
		},
		"shards and what it holds": {
			rogue: func(n int) []reservations.Charge {
				c := reservations.Charge{}
				c.Shard, c.Held = 1+n%200, "reserved"
				return own(c)
			},
		},
		"a priority": {api: bounded, rogue: func(int) []reservations.Charge {
			return own(reservations.Charge{Priority: "fast"})
		}},
		"urgency": {api: bounded, rogue: func(int) []reservations.Charge {
			return own(reservations.Charge{Urgent: true})
		}},
		"both, and a flow of its own": {api: bounded, rogue: func(n int) []reservations.Charge {
			return own(reservations.Charge{Urgent: true, Priority: "fast", Flow: fmt.Sprint("vip", n)})
		}},
		"a key of the shared limit": {api: bounded, rogue: func(int) []reservations.Charge {
			return []reservations.Charge{{Limit: "api", Tokens: requests, Urgent: true, Priority: "fast", Flow: "tenants:vip"}}
		}},
		"urgent among urgent ones": {
			api: urgent, quiet: reservations.Charge{Urgent: true},
			rogue: func(int) []reservations.Charge { return own(reservations.Charge{Urgent: true}) },
		},
		"refusals of its own service": {
			times: 5, rogue: func(int) []reservations.Charge { return own(reservations.Charge{}) },
		},
	} {
		for _, by := range []string{"enqueued", "plain"} {
			t.Run(name+", "+by, func(t *testing.T) {
				api := limit(perSecond(10, 5))
				if tc.api != nil {
					tc.api(&api)
				}
				in(t, world{limits: tenantLimits(api, share{rate: 1000, capacity: 1000}), provider: usual}, func(f *fleet) {
					rogue := func(n int) claimed {
						return claimed{N: n, Series: "rogue", List: tc.rogue(n), Refused: tc.times}
					}
					if by == "plain" {
						for n := range many {
							f.plain(rogue(n))
						}
					} else {
						f.Backlog(many, func(n int) tasks.Args { return rogue(n) })
					}
					f.Backlog(few, func(n int) tasks.Args {
						quiet := tc.quiet
						quiet.Limit, quiet.Tokens = "api", requests
						return claimed{N: n, Series: "quiet", List: []reservations.Charge{
							{Limit: "tenants", Key: "quiet", Tokens: requests}, quiet,
						}}
					})
					last := f.untilQuiet(few)
					t.Logf("the last of %d tasks is start number %d", few, last)
					if last > 2*few+8 {
						t.Errorf("%d starts until the last of %d tasks", last, few)
					}
				})
			})
		}
	}
}

// untilQuiet starts workers, and returns the number of starts until the last of the quiet tasks, it included.
func (f *fleet) untilQuiet(few int) (starts int) {
	f.t.Helper()
	quiet, refused := 0, map[string]int{}
	f.Workers(size, func(w *worker.Worker) {
		worker.Handle(w, func(_ context.Context, job *worker.Job[claimed]) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if quiet < few {
				starts++
			}
			if strings.HasPrefix(job.ID, "quiet") {
				quiet++
			}
			if refused[job.ID] < job.Args.Refused {
				refused[job.ID]++
				return &reservations.RetryAfterError{After: 10 * time.Millisecond, Elsewhere: true}
			}
			return nil
		})
	})
	for range int(patience / time.Second) {
		f.Run(time.Second)
		f.mu.Lock()
		ended := quiet >= few
		f.mu.Unlock()
		if ended {
			break
		}
	}
	return starts
}

// A tenant sends urgent tasks all the time by asynq alone. They are new when a worker takes them. They leave the
// urgent tasks of another tenant that wait their half of the API.
func TestAStreamOfUrgentTasks(t *testing.T) {
	const few = 15
	requests := reservations.Tokens{"requests": 1}
	api := limit(perSecond(10, 5))
	api.Meters[0].Headroom, api.OrdinaryShare = 1, 0.1
	of := func(series string, n int) claimed {
		return claimed{N: n, Series: series, List: []reservations.Charge{
			{Limit: "tenants", Key: series, Tokens: requests}, {Limit: "api", Urgent: true, Tokens: requests},
		}}
	}
	in(t, world{limits: tenantLimits(api, share{rate: 1000, capacity: 1000}), provider: usual}, func(f *fleet) {
		for n := range 600 {
			f.At(time.Duration(n)*20*time.Millisecond, func() { f.plain(of("rogue", n)) })
		}
		f.At(2*time.Second, func() {
			f.Backlog(few, func(n int) tasks.Args { return of("quiet", n) })
		})
		last := f.untilQuiet(few)
		t.Logf("the last of %d tasks is start number %d", few, last)
		if last > 25+2*few+8 {
			t.Errorf("%d starts until the last of %d tasks", last, few)
		}
	})
}
