package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/setup/cli"
)

const (
	// listedTogether is how many lines share the widths of their columns.
	listedTogether = 200
	// errorShown is how many letters of an error a line has.
	errorShown = 60
	// errorFirst is the least of them in a narrow table with types and attempts, errorLeast in one without.
	errorFirst = 32
	errorLeast = 16
)

func deadListCommand(env cli.Environment) *cobra.Command {
	var f deadFilter
	var asJSON bool
	var most int
	c := &cobra.Command{
		Use:   "list",
		Short: "List the dead tasks, the oldest first",
		Long: `List shows the tasks that are dead, without their payloads. With --all-states it also lists tasks that
failed and will be retried, were requeued, or succeeded later. On a narrow terminal the table has shorter times and
errors, then fewer columns.`,
		Example: `  headway dead list
  headway dead list --queue batch --since 24h
  headway dead list --json | jq -r .error | sort | uniq -c | sort -rn`,
	}
	f.flags(c)
	c.Flags().IntVar(&most, "limit", 0, "the most tasks to list; 0 for all")
	f.statesFlag(c, "list")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.RunE = func(c *cobra.Command, _ []string) error {
		chosen, err := f.filter()
		if err != nil {
			return err
		}
		if most < 0 {
			return cli.Usage("--limit %d must not be negative", most)
		}
		store, done, err := openDead(c.Context(), env, nil)
		if err != nil {
			return err
		}
		defer done()
		if asJSON {
			_, err = writeDead(encoderTo(env.Out), store.List(c.Context(), chosen), most, rowOf, func(int) {})
			return err
		}
		return listDead(c.Context(), env, store, chosen, most)
	}
	return c
}

// listDead prints the rows page by page, so that any number of them takes no memory.
func listDead(ctx context.Context, env cli.Environment, store *deadtasks.Store, f deadtasks.Filter, most int) error {
	s := screenOf(env)
	n, requests := 0, 0
	var page []deadtasks.Task
	began := false
	flush := func() {
		if len(page) == 0 {
			return
		}
		lines := deadTable(page, s.columns)
		if began && s.columns == 0 {
			lines = lines[1:] // on a terminal each page has its own columns, and so its header
		}
		for _, line := range lines {
			fmt.Fprintln(s, line)
		}
		page, began = page[:0], true
	}
	err := each(store.List(ctx, f), most, func(t deadtasks.Task) error {
		n++
		if t.Batch != "" {
			requests++
		}
		if page = append(page, t); len(page) >= listedTogether {
			flush()
		}
		return nil
	})
	if err != nil && !errors.Is(err, deadtasks.ErrMalformed) {
		return err
	}
	flush()
	return errors.Join(deadSummary(ctx, s, store, f, n, most, sendsAgain(n, requests)), err)
}

// deadTable shows tasks in lines of at most columns characters; zero is no bound. A narrow table has shorter times and
// errors. If that does not fit, it has no types and attempts, and the state only of tasks that are not dead; then only
// the ID and the error. IDs are whole, because the commands need whole IDs. The first line is the header.
func deadTable(all []deadtasks.Task, columns int) []string {
	state := 0
	if slices.ContainsFunc(all, func(t deadtasks.Task) bool { return t.State != deadtasks.StateDead }) {
		state = 2
	}
	heads := []cli.Column{
		{Head: "ID", Until: 3},
		{Head: "QUEUE", Until: 2},
		{Head: "TYPE", Until: 1},
		{Head: "STATE", Until: state},
		{Head: "AT", Until: 2},
		{Head: "ATTEMPTS", Until: 1},
		{Head: "ERROR", Until: 3, Least: []int{0, errorFirst, errorLeast, errorLeast}},
	}
	return cli.Table(all, columns, heads, func(t deadtasks.Task, level int) []string {
		state, at := string(t.State), cli.Day(t.At)
		if level == 0 {
			if at = t.At.UTC().Format(time.RFC3339); t.Batch != "" {
				state += " (of batch " + t.Batch + ")"
			}
		}
		return []string{
			t.ID, t.Queue, t.Type, state, at, strconv.Itoa(len(t.Attempts)),
			cli.FirstLine(t.Error, errorShown, "..."),
		}
	})
}

// sendsAgain says which commands send n tasks again, of which some are requests of batches.
func sendsAgain(n, requests int) string {
	const task, request = "`headway dead requeue ID` sends it again", "`headway retry BATCH --failed` sends "
	switch requests {
	case 0:
		return task
	case n:
		return request + "them again"
	}
	return task + ", " + request + "requests of a batch again"
}

// deadSummary is the last line: how many there are, and what can be done.
func deadSummary(
	ctx context.Context, s screen, store *deadtasks.Store, f deadtasks.Filter, n, most int, again string,
) error {
	switch n {
	case 0:
		_, err := fmt.Fprintln(s, "no dead tasks")
		return err
	case most:
		total, err := store.Count(ctx, f)
		if err != nil {
			return err
		}
		n = total
	}
	fmt.Fprintln(s)
	for _, line := range cli.Arrange([]string{
		cli.Plural(n, "task", "tasks"),
		"`headway dead show ID` shows all of one, " + again,
	}, s.columns) {
		if _, err := fmt.Fprintln(s, line); err != nil {
			return err
		}
	}
	return nil
}
