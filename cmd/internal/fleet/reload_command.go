package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/period"
)

// answersEvery is how often the command looks for answers.
const answersEvery = 100 * time.Millisecond

func reloadCommand(env cli.Environment) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "reload",
		Short: "Have all workers read their headway.yaml again",
		Long: `Reload asks every "headway worker" of the fleet to read its own file again and to go by the limits there, as
SIGHUP does for one worker. It prints the answer of each worker: its file is in force, or it has a fault and nothing
changed there. The exit code is 1 if a worker found a fault, if one did not answer in time, or if none runs.

A worker that does not answer in time reads its file when it reaches Redis again, within an hour.`,
		Example: `  headway reload
  headway reload --timeout 30s --json`,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the answers as a JSON list")
	timeout = 15 * time.Second
	c.Flags().Var((*period.Flag)(&timeout), "timeout", "how long to wait for the answers")
	c.RunE = func(c *cobra.Command, _ []string) error {
		queue, err := connect.Redis(c.Context(), env.Getenv)
		if err != nil {
			return err
		}
		defer func() { _ = queue.Close() }()
		answers, err := reloadAll(c.Context(), register.New(queue), timeout)
		if err != nil {
			return err
		}
		return showAnswers(env, answers, asJSON)
	}
	return c
}

// noAnswer is the fault of a worker that did not answer in time.
const noAnswer = "no answer"

// reloadAll returns the answers of all workers, by name.
func reloadAll(ctx context.Context, r *register.Register, timeout time.Duration) ([]register.Answer, error) {
	request, processes, err := r.Reload(ctx)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(timeout); ; {
		all, err := r.Answers(ctx, request)
		if err != nil {
			return nil, err
		}
		missing := slices.DeleteFunc(slices.Clone(processes), func(p string) bool {
			_, answered := all[p]
			return answered
		})
		if len(missing) > 0 && time.Now().Before(until) {
			if err := pause.For(ctx, answersEvery); err != nil {
				return nil, err
			}
			continue
		}
		for _, p := range missing {
			all[p] = register.Answer{Process: p, Fault: noAnswer}
		}
		return slices.SortedFunc(maps.Values(all), func(a, b register.Answer) int {
			return strings.Compare(a.Process, b.Process)
		}), nil
	}
}

// showAnswers prints the answers. The error says that not all workers go by their files now.
func showAnswers(env cli.Environment, answers []register.Answer, asJSON bool) error {
	failed := 0
	for _, a := range answers {
		text := "goes by its file now"
		switch {
		case a.Fault == noAnswer:
			text = "has not answered"
		case a.Fault != "":
			text = "has changed nothing: " + a.Fault
		case len(a.Restart) > 0:
			text += "; needs a restart: " + strings.Join(a.Restart, ", ")
		}
		if a.Fault != "" {
			failed++
		}
		if !asJSON {
			fmt.Fprintf(env.Out, "%s  %s\n", a.Process, text)
		}
	}
	if asJSON {
		if err := cli.JSON(env.Out).Encode(slices.Concat([]register.Answer{}, answers)); err != nil {
			return err
		}
	}
	switch {
	case len(answers) == 0:
		return errors.New("no `headway worker` runs on this Redis; " +
			"a Go program changes its limits itself, by Client.SetLimits")
	case failed > 0:
		return fmt.Errorf("%d of %s did not reload", failed, cli.Plural(len(answers), "worker", "workers"))
	}
	return nil
}
