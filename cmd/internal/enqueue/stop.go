package enqueue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/text/shell"
)

// failuresMost is how many failed requests stop a batch of that many requests: a number, or a share of them, which is
// at least one request. Zero never stops it. The error is a *cli.UsageError.
func failuresMost(text string, requests int) (int, error) {
	if text == "" {
		return 0, nil
	}
	percent, share := strings.CutSuffix(text, "%")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n, nil
	}
	part, err := strconv.ParseFloat(percent, 64)
	if !share || err != nil || !(part > 0 && part <= 100) {
		return 0, cli.Usage("--max-failures: %q must be a number of requests from 1, or a share of them such as 5%%; "+
			"1 stops at the first failure", text)
	}
	return max(1, int(float64(requests)*part/100)), nil
}

// stopped says why a batch has stopped by itself.
func stopped(b batches.Batch) string {
	return fmt.Sprintf("batch %s has stopped at %s (--max-failures)", b.ID,
		cli.Plural(b.FailuresMost, "failed request", "failed requests"))
}

// cancelledError is why a batch does not go on: a person has cancelled it, or it has stopped by itself. It matches
// batches.ErrCancelled.
func cancelledError(b batches.Batch) error {
	if b.StoppedBy == "" {
		return fmt.Errorf("batch %s was %w; enqueue its file again to go on. `%s` has the answers of requests that still "+
			"run", b.ID, batches.ErrCancelled, shell.Command("headway results", b.ID))
	}
	return fmt.Errorf("%s: what had not started was %w; `%s` lists the failures; enqueue the file again to go on",
		stopped(b), batches.ErrCancelled, shell.Command("headway status", b.ID, "--failed"))
}
