// Package cli is what the commands share: how they are called, their exit codes, and whether they write to a screen.
package cli

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

// Environment is what a command may touch of the world around it.
type Environment struct {
	Getenv   func(string) string
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command that root builds, with the process's arguments and environment, until it ends or a signal asks
// it to stop; a second signal ends the process at once. It returns the exit code.
func Main(root func(Environment) *cobra.Command) int {
	logging.Disable() // go-redis writes each failed dial to stderr; the errors that commands return say it once
	// net/http writes there what a peer sends unasked, which may be a secret that was sent to it
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, root, os.Args[1:], Environment{Getenv: os.Getenv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// Run is Main in a given environment. An error is printed once, to Err, and no byte of it is a command to a terminal.
func Run(ctx context.Context, root func(Environment) *cobra.Command, args []string, env Environment) int {
	out, errs := &text{to: env.Out, terminal: IsTerminal(env.Out)}, &text{to: env.Err, terminal: IsTerminal(env.Err)}
	defer func() { _, _ = out.flush(), errs.flush() }() // there is nowhere to say it
	env.Out, env.Err = out, errs
	c := root(env)
	c.SetArgs(args)
	c.SetOut(env.Out)
	c.SetErr(env.Err)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.Version = version()
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, flagFault(err)) })
	if c.RunE == nil {
		c.Args = Args(cobra.NoArgs)
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	err := c.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(env.Err, "%s: %v\n", c.Name(), err) // there is nowhere else to say it
	}
	return exitCode(err)
}

// version is that of the module the program was built from, with the commit where that is known.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(text, s.Value[:min(12, len(s.Value))]) {
			text += " " + s.Value
		}
	}
	return text
}

// Args makes faults of the positional arguments usage errors that point to the help.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usage(c, err)
		}
		return nil
	}
}

// Named wants exactly one argument for each name, and says so by the names.
func Named(names ...string) cobra.PositionalArgs {
	return Args(func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("wants %s; got %d arguments", strings.Join(names, " and "), len(args))
		}
		return nil
	})
}

func usage(c *cobra.Command, err error) error {
	return &UsageError{Err: fmt.Errorf("%w; see %q", err, c.CommandPath()+" --help")}
}
