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

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/internal/register"
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
	c.Flags().DurationVar(&timeout, "timeout", 15*time.Second, "how long to wait for the answers")
	c.RunE = func(c *cobra.Command, _ []string) error {
		queue, err := connect.Redis(c.Context(), env.Getenv)
		if err != nil {
			return err
		}
		defer func() { _ = queue.Close() }()
		answers, missing, err := reloadAll(c.Context(), register.New(queue), timeout)
		if err != nil {
			return err
		}
		return showAnswers(env, answers, missing, asJSON)
	}
	return c
}

// reloadAll returns the answers of all workers, by name, and the workers that did not answer in time.
func reloadAll(
	ctx context.Context, r *register.Register, timeout time.Duration,
) (answers []register.Answer, missing []string, err error) {
	request, processes, err := r.Reload(ctx)
	if err != nil {
		return nil, nil, err
	}
	until := time.Now().Add(timeout)
	for {
		all, err := r.Answers(ctx, request)
		if err != nil {
			return nil, nil, err
		}
		missing = slices.DeleteFunc(slices.Clone(processes), func(p string) bool {
			_, answered := all[p]
			return answered
		})
		if len(missing) == 0 || time.Now().After(until) {
			return slices.SortedFunc(maps.Values(all), func(a, b register.Answer) int {
				return strings.Compare(a.Process, b.Process)
			}), missing, nil
		}
		if err := pause.For(ctx, answersEvery); err != nil {
			return nil, nil, err
		}
	}
}

// showAnswers prints the answers. The error says that not all workers go by their files now.
func showAnswers(env cli.Environment, answers []register.Answer, missing []string, asJSON bool) error {
	of, failed := len(answers)+len(missing), len(missing)
	for _, a := range answers {
		text := "goes by its file now"
		if len(a.Restart) > 0 {
			text += "; needs a restart: " + strings.Join(a.Restart, ", ")
		}
		if a.Fault != "" {
			failed++
			text = "has changed nothing: " + a.Fault
		}
		if !asJSON {
			fmt.Fprintf(env.Out, "%s  %s\n", a.Process, text)
		}
	}
	if asJSON {
		for _, process := range missing {
			answers = append(answers, register.Answer{Process: process, Fault: "no answer"})
		}
		if err := cli.JSON(env.Out).Encode(slices.Concat([]register.Answer{}, answers)); err != nil {
			return err
		}
	} else {
		for _, process := range missing {
			fmt.Fprintf(env.Out, "%s  has not answered\n", process)
		}
	}
	switch {
	case of == 0:
		return errors.New("no `headway worker` runs on this Redis")
	case failed > 0:
		return fmt.Errorf("%d of %s did not reload", failed, cli.Plural(of, "worker", "workers"))
	}
	return nil
}
