// Package enqueue has the commands that put tasks into the queue, and follow them: a whole file in the OpenAI Batch
// format, or one request.
package enqueue

import (
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
)

// Commands returns `headway enqueue` and answer, and batch, status, results, retry and cancel.
//
// Everything is checked before anything is sent: the file's lines, the limit, and that each request can ever be served.
func Commands(env cli.Environment) []*cobra.Command {
	return []*cobra.Command{
		oneCommand(env), answerCommand(env), batchCommand(env), statusCommand(env), resultsCommand(env), retryCommand(env),
		cancelCommand(env),
	}
}
