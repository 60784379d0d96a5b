// Package cli is the shared part of all commands: arguments, exit codes, and output to terminals and files.
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
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/text/nearest"
)

// Environment is the environment of a command: variables, input and output.
type Environment struct {
	Getenv   func(string) string
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command that root builds, with the process's arguments and environment. A signal stops the command; a
// second one ends the process at once, unless it comes within 100 ms. Main returns the exit code.
func Main(root func(Environment) *cobra.Command) int {
	trimProcess()
	logging.Disable() // go-redis writes each failed dial to stderr; commands return such errors once
	// net/http logs unexpected bytes of a peer, which may contain a secret that was sent to the peer
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	defer stop()
	afterEcho(ctx, stop)
	return Run(ctx, root, os.Args[1:], Environment{Getenv: os.Getenv, In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// stopSignals are the signals that stop a command: where it has a terminal, also the one of a terminal that is closed.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if HasTerminal() && !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// HasTerminal says whether the process has a controlling terminal.
func HasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		_ = tty.Close()
	}
	return err == nil
}

// signalEcho is how long a signal may be repeated and still counts as one: timeout(1) and some shells send it to the
// process and to its group.
const signalEcho = 100 * time.Millisecond

// afterEcho calls stop when ctx has ended and its signal can't be an echo any more. Then the next signal ends the
// process.
func afterEcho(ctx context.Context, stop func()) {
	context.AfterFunc(ctx, func() { time.AfterFunc(signalEcho, stop) })
}

// Run is Main in a given environment, whose variables count without line ends and spaces around them. It prints an
// error once, to Err, with all terminal control characters escaped.
func Run(ctx context.Context, root func(Environment) *cobra.Command, args []string, env Environment) int {
	out, errs := newText(env.Out), newText(env.Err)
	defer func() { _, _ = out.flush(), errs.flush() }() // no output is left for an error
	env.Out, env.Err = out, errs
	if env.Getenv != nil {
		env.Getenv = trimmed(env.Getenv)
	}
	c := root(env)
	c.SetArgs(args)
	c.SetOut(env.Out)
	c.SetErr(env.Err)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.Version = version()
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(c, flagFault(c, err)) })
	complete(c)
	helpInOnePiece(c)
	err := c.ExecuteContext(ctx)
	if err != nil {
		_, _ = fmt.Fprintf(env.Err, "%s: %v\n", c.Name(), err) // no other output is left
	}
	return exitCode(err)
}

// version is the version of the program's module, with the commit if it is known.
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

// complete completes a command, and all below it. Flags with whole numbers refuse octal ones. Without Args a command
// takes no arguments, and without RunE it shows its help. Errors of arguments are usage errors that name the help.
func complete(c *cobra.Command) {
	if c.RunE == nil {
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	check := c.Args
	if check == nil {
		check = noArgs
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if c.HasSubCommands() && len(args) > 0 {
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
			return usage(c, fmt.Errorf("unknown command %.80q%s", args[0], nearest.Hint(args[0], names)))
		}
		if err := check(c, args); err != nil {
			return usage(c, err)
		}
		return nil
	}
	wholeNumbers(c.LocalNonPersistentFlags())
	wholeNumbers(c.PersistentFlags())
	for _, sub := range c.Commands() {
		complete(sub)
	}
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("takes no arguments; got %.80q", args[0])
	}
	return nil
}

// Named requires one argument for each name. The last one may be in brackets: then its argument may be left out. The
// error lists the names.
func Named(names ...string) cobra.PositionalArgs {
	least := len(names)
	if strings.HasPrefix(names[least-1], "[") {
		least--
	}
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > len(names) {
			return fmt.Errorf("wants %s; got %s", strings.Join(names, " and "), Plural(len(args), "argument", "arguments"))
		}
		return nil
	}
}

func usage(c *cobra.Command, err error) error {
	format := "%w; see %q"
	if strings.HasSuffix(err.Error(), "?") {
		format = "%w See %q"
	}
	return Usage(format, err, c.CommandPath()+" --help")
}
