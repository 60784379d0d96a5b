package enqueue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/batchref"
)

// failedRequest is a line of `headway status BATCH --failed`.
type failedRequest struct {
	CustomID string `json:"custom_id"`
	Line     int    `json:"line"`
	Task     string `json:"task"`
	Attempts int    `json:"attempts"`
	Status   int    `json:"status,omitempty"` // of the answer
	Error    string `json:"error"`
}

// errorLeast is how much of an error a narrow table has at least.
const errorLeast = 20

// listFailed prints the failed requests of a batch, in the order of the lines.
func listFailed(ctx context.Context, env cli.Environment, store *batches.Store, b batches.Batch, asJSON bool) error {
	var rows []failedRequest
	for r, err := range store.FailedOnes(ctx, b.ID) {
		malformed := errors.Is(err, batches.ErrMalformed)
		if err != nil && !malformed {
			return err
		}
		row := failedRequest{
			CustomID: r.CustomID, Line: r.Line, Attempts: len(r.Attempts), Error: r.Fault(),
			Task: batchref.Ref{Batch: b.ID, Line: r.Line, Round: r.Round}.TaskID(),
		}
		if malformed {
			row.Error = err.Error()
		}
		if r.Response != nil {
			row.Status = r.Response.StatusCode
		}
		if !asJSON {
			rows = append(rows, row)
		} else if err := cli.JSON(env.Out).Encode(row); err != nil {
			return err
		}
	}
	if asJSON {
		return nil
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintf(env.Out, "no request of batch %s has failed\n", b.ID)
		return err
	}
	heads := []cli.Column{
		{Head: "CUSTOM_ID", Until: 1},
		{Head: "TASK", Until: 1},
		{Head: "TRIES"},
		{Head: "ERROR", Until: 1, Least: []int{0, errorLeast}},
	}
	lines := cli.Table(rows, cli.Columns(env.Out), heads, func(f failedRequest, _ int) []string {
		return []string{
			cli.FirstLine(f.CustomID, 40, "..."), f.Task, strconv.Itoa(f.Attempts), cli.FirstLine(f.Error, 100, "..."),
		}
	})
	_, err := fmt.Fprintln(env.Out, strings.Join(lines, "\n"))
	return err
}
