// Package root is the command `headway`: it joins the commands of its sibling packages in one binary.
package root

import (
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/capacity"
	"github.com/headway-go/headway/cmd/internal/enqueue"
	"github.com/headway-go/headway/cmd/internal/fleet"
	"github.com/headway-go/headway/cmd/internal/gateway"
	"github.com/headway-go/headway/internal/setup/cli"
)

// Command returns `headway` with all its commands, in groups.
func Command(env cli.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "headway",
		Short: "Run jobs that call rate-limited APIs, at exactly the limit",
		Long: `Headway runs jobs that call rate-limited APIs, at exactly the limit that a whole fleet of workers shares.

Begin with "headway demo": it needs no services and shows a fleet at work within a minute. "headway dev" runs everything
that a program of yours needs in one process.

Settings come from headway.yaml (limits, queues, concurrency) and from the environment:
  REDIS_URL        the queue      (default that of a running "headway dev", else redis://127.0.0.1:6379/0; also unix://,
                   redis+sentinel:// and redis+cluster://; rediss, as in rediss:// and rediss+cluster://, is for TLS)
  MONGODB_URI      the buckets, batches, answers and dead tasks; without it all of them are in Redis
  OPENAI_API_KEY   the provider's key; it never leaves the worker. Without it a worker makes HTTP requests only,
                   and does not start where http.allow_hosts lists no host
  OPENAI_BASE_URL  the provider   (default: OpenAI's own)
Several providers are in headway.yaml (providers), each with the name of the variable that has its key.

Exit codes: 0 all went well, 1 the work went wrong or some requests failed, 2 a fault in the command line, the settings
or a file: nothing was changed, 3 a service could not be reached, 130 interrupted.`,
	}
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run:", fleet.Running(env)},
		{"Any language:", gateway.Commands(env)},
		{"Enqueue:", enqueue.Commands(env)},
		{"Watch and change:", fleet.Watching(env)},
		{"Plan:", capacity.Commands(env)},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	return root
}
