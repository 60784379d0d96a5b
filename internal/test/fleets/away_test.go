package fleets_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// Three tasks of a plain asynq client wait for a limit of one a second, and something takes them away from Headway.
// The four tasks behind them start as if the three had run: each costs at most its turn.
func TestWhatTakesATaskAway(t *testing.T) {
	const away, behind = 3, 4
	each := func(do func(i *asynq.Inspector, queue, id string) error) func(*asynq.Inspector) error {
		return func(i *asynq.Inspector) error {
			for n := range away {
				if err := do(i, "other", fmt.Sprint("away", n)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		taskType string // "claimed" if empty
		options  []asynq.Option
		in       time.Duration // of a deadline
		then     func(*asynq.Inspector) error
	}{
		"a deadline that passes":       {in: 2 * time.Second},
		"a deadline of the last retry": {in: 2 * time.Second, options: []asynq.Option{asynq.MaxRetry(0)}},
		"a deadline that has passed":   {in: -time.Second},
		"a timeout of a nanosecond":    {options: []asynq.Option{asynq.Timeout(1)}},
		"a type without a handler":     {taskType: "nobody's"},
		"an operator deletes them":     {then: each((*asynq.Inspector).DeleteTask)},
		"an operator archives them":    {then: each((*asynq.Inspector).ArchiveTask)},
		"an operator runs them": {then: each(func(i *asynq.Inspector, queue, id string) error {
			_ = i.RunTask(queue, id) // an error if the task is on its way
			return nil
		})},
		"an operator deletes their queue": {
			then: func(i *asynq.Inspector) error { return i.DeleteQueue("other", true) },
		},
		"an operator pauses their queue": {then: func(i *asynq.Inspector) error { return i.PauseQueue("other") }},
		"all that wait are deleted": {then: func(i *asynq.Inspector) error {
			_, err := i.DeleteAllRetryTasks("other")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, world{limits: []reservations.Limit{limit(perSecond(1, 1))}, provider: usual}, func(f *fleet) {
				f.Workers(size, func(w *worker.Worker) {
					caller := f.api.Caller()
					worker.Handle(w, func(ctx context.Context, job *worker.Job[claimed]) error {
						m, _ := f.begin(w, job.ID, job.Attempt)
						err := caller.Do(ctx, headwaytest.Call{})
						f.finish(m, err)
						return err
					})
				}, worker.Config{Queues: map[string]int{"default": 1, "other": 1}})
				client := asynq.NewClientFromRedisClient(f.Client())
				send := func(taskType, queue, id string, options ...asynq.Option) {
					list := []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}}
					payload, _ := json.Marshal(claimed{List: list})
					charges, _ := json.Marshal(list)
					task := asynq.NewTaskWithHeaders(taskType, payload, map[string]string{
						"headway-version": "1", "headway-charges": string(charges),
					})
					options = append([]asynq.Option{asynq.Queue(queue), asynq.TaskID(id), asynq.MaxRetry(3)}, options...)
					if _, err := client.EnqueueContext(f.Context(), task, options...); err != nil {
						t.Errorf("enqueue %s: %v", id, err)
					}
				}
				for n := range 3 {
					send("claimed", "default", fmt.Sprint("before", n))
				}
				f.Run(100 * time.Millisecond)
				if c.in != 0 {
					c.options = append(c.options, asynq.Deadline(time.Now().Add(c.in)))
				}
				for n := range away {
					taskType := "claimed"
					if c.taskType != "" {
						taskType = c.taskType
					}
					send(taskType, "other", fmt.Sprint("away", n), c.options...)
				}
				f.Run(300 * time.Millisecond)
				if c.then != nil {
					if err := c.then(f.inspector()); err != nil {
						t.Fatal(err)
					}
				}
				for n := range behind {
					send("claimed", "default", fmt.Sprint("behind", n))
				}
				f.Run((3 + away + behind + 3) * time.Second)
				n := 0
				for _, m := range f.made() {
					if strings.HasPrefix(m.task, "behind") {
						n++
					}
				}
				if n != behind {
					t.Errorf("%d of %d tasks behind them started: %v", n, behind, f.Report())
				}
			})
		})
	}
}
