// Package fleet is a task and its handler as production has them. Its tests prove limits and faults in virtual time:
// copy the folder, and put your own in place of this one.
package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// Summary is a task: one call of the API.
type Summary struct {
	N   int    `json:"n"`
	Key string `json:"key,omitempty"` // the name of the API key; each has a limit of its own
}

// TaskType names tasks of this kind in the queue.
func (Summary) TaskType() string { return "summary" }

// Charges are what a task takes from its limit.
func (s Summary) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "openai", Key: s.Key, Tokens: reservations.Tokens{"requests": 1}}}
}

// newHandler returns the handler of a worker, which calls the API by this client.
func newHandler(client *http.Client) func(ctx context.Context, job *worker.Job[Summary]) error {
	return func(ctx context.Context, job *worker.Job[Summary]) error {
		body := strings.NewReader(fmt.Sprintf(`{"document": %d}`, job.Args.N))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/v1/summaries", body)
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", job.Args.Key)
		res, err := client.Do(req)
		if err != nil {
			return err // retried
		}
		defer func() { _ = res.Body.Close() }() // it was read
		if res.StatusCode == http.StatusOK {
			return nil
		}
		err = fmt.Errorf("the API answered %s", res.Status)
		if _, wait := llm.ReadLimits(res); wait > 0 {
			return reservations.RetryAfter(wait, err) // the whole fleet waits, and no retry is used
		}
		return err
	}
}
