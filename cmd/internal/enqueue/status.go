package enqueue

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
)

// listed is how many batches are listed.
const listed = 20

func statusCommand(env cli.Environment) *cobra.Command {
	var t target
	var asJSON, failed bool
	c := &cobra.Command{
		Use:   "status [BATCH]",
		Short: "Show how batches go: done, failed, waiting, rates, tokens, cost, the end",
		Long: `Status shows one batch, or the newest 20. BATCH is its name, or a unique beginning of it. On a narrow
terminal the table has shorter names and times and no limits, then no times, then no files.

The end is estimated from the requests that ended in the last minute, without a pause before. If these are too few, or
the limit does not allow their rate, it is estimated from the limit: then it can't be sooner. If no worker serves the
queue of the batch, or has its limit or task type, or the queue is paused, status prints that instead. Prices of tokens
are in headway.yaml (prices). Below the batches are the limits for which tasks wait, tasks of no batch too, and what is
stuck in the fleet, as the page of "headway dashboard" has it.

Requests of a cancelled batch without a result count as cancelled, in a column of their own; only running requests count
as waiting.

The exit code is 0 even if requests failed or the batch was cancelled; --json shows that.`,
		Example: `  headway status
  headway status 3f2a --failed
  headway status 3f2a --json`,
		Args: cli.Named("[BATCH]"),
	}
	t.configFlag(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object for each batch and line")
	c.Flags().BoolVar(&failed, "failed", false, "list the failed requests of BATCH: custom_id, task ID and error")
	c.RunE = func(c *cobra.Command, args []string) error {
		if failed && len(args) == 0 {
			return cli.Usage("--failed lists the requests of one batch: name its BATCH")
		}
		s, err := t.openStored(c.Context(), env)
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		var found []batches.Batch
		if len(args) == 1 {
			b, unknown := s.find(c.Context(), args[0])
			if unknown != nil {
				return unknown
			}
			if failed {
				return listFailed(c.Context(), env, s.Batches, b, asJSON)
			}
			found = []batches.Batch{b}
		} else if found, err = s.Batches.List(c.Context(), listed); err != nil && !errors.Is(err, batches.ErrMalformed) {
			return err
		}
		err = errors.Join(status(c.Context(), env, s, found, asJSON, len(args) == 1), err)
		if len(args) > 0 || asJSON {
			return err
		}
		waiting, unread := s.waits(c.Context())
		for _, line := range waiting {
			fmt.Fprintln(env.Out, line)
		}
		return errors.Join(err, unread)
	}
	return c
}

// status prints the figures of batches. The error names the ones that can't be read, after the others.
func status(
	ctx context.Context, env cli.Environment, s services, found []batches.Batch, asJSON, whole bool,
) error {
	var all []figures
	var malformed []error
	running := oncePerQueue(s.running)
	for _, b := range found {
		w := s.watch(b)
		w.running = running
		f, err := w.look(ctx)
		if errors.Is(err, batches.ErrMalformed) && !whole {
			malformed = append(malformed, err)
			continue
		}
		if err == nil && asJSON {
			err = cli.JSON(env.Out).Encode(f)
		}
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	if !asJSON {
		lines := list(all, cli.Columns(env.Out))
		if whole {
			lines = all[0].whole(cli.Columns(env.Out))
		}
		if _, err := fmt.Fprintln(env.Out, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return errors.Join(malformed...)
}

const (
	// idShown is how much of a batch's name a narrow table has at least; the commands want no more.
	idShown = 8
	// fileShown is how much of a file's name it has at least.
	fileShown = 8
)

// whole shows all about one batch, in lines of at most columns characters; zero is no bound.
func (f *figures) whole(columns int) []string {
	head := fmt.Sprintf("batch %s of %s, for limit %s, since %s", f.ID, f.Name, f.Limit,
		f.Created.UTC().Format(time.RFC3339))
	return append(cli.Arrange([]string{head}, columns), cli.Arrange(f.parts(), columns)...)
}

// list is a table of batches, in lines of at most columns characters; zero is no bound. A narrow table has shorter
// texts and no limits. If that does not fit, it has no times, then no files.
func list(all []figures, columns int) []string {
	if len(all) == 0 {
		return []string{"no batches"}
	}
	cancelled := -1
	if slices.ContainsFunc(all, func(f figures) bool { return f.Cancelled > 0 }) {
		cancelled = 3
	}
	heads := []cli.Column{
		{Head: "BATCH", Until: 3},
		{Head: "CREATED", Until: 1},
		{Head: "FILE", Until: 2, Least: []int{0, fileShown, fileShown}},
		{Head: "LIMIT"},
		{Head: "DONE", Until: 3},
		{Head: "FAILED", Until: 3},
		{Head: "CANCELLED", Until: cancelled},
		{Head: "WAITING", Until: 3},
		{Head: "END", Until: 3},
	}
	return cli.Table(all, columns, heads, func(f figures, level int) []string {
		batch, created, file := f.ID, f.Created.UTC().Format(time.RFC3339), f.Name
		end, short := f.end()
		if f.Ended != nil { // the column CREATED has the day
			end = "all have ended, after " + leftText(*f.Duration)
		}
		if level > 0 {
			batch, created, file, end = prefix(f.ID, all), cli.Day(f.Created), filepath.Base(f.Name), short
		}
		return []string{
			batch, created, file, f.Limit, strconv.Itoa(f.Done), strconv.Itoa(f.Failed), strconv.Itoa(f.Cancelled),
			strconv.Itoa(f.Waiting), end,
		}
	})
}

// prefix is as much of the name as no other batch begins with.
func prefix(id string, all []figures) string {
	for n := idShown; n < len(id); n++ { // a name has letters of one byte only
		if !slices.ContainsFunc(all, func(f figures) bool {
			return f.ID != id && strings.HasPrefix(f.ID, id[:n])
		}) {
			return id[:n]
		}
	}
	return id
}
