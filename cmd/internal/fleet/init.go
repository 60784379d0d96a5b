package fleet

import (
	_ "embed"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

//go:embed init.yaml
var initial []byte

func initCommand(env cli.Environment) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "init",
		Short: "Write a headway.yaml with a comment for each setting",
		Long: `Init writes a headway.yaml to begin with: a limit for OpenAI, and a comment for each setting. It replaces no
file: the exit code is 2 if there is one.`,
		Example: `  headway init
  headway dev`,
	}
	c.Flags().StringVar(&file, "config", config.FileDefault, "the `file` to write")
	c.RunE = func(*cobra.Command, []string) error {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // settings are no secret
		switch {
		case errors.Is(err, os.ErrExist):
			return cli.Usage("%s exists: init replaces no file; name another one with --config", file)
		case err != nil:
			return &cli.UsageError{Err: err}
		}
		_, err = f.Write(initial)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
		_, err = fmt.Fprintf(env.Out, "%s is written: `headway check` reads it, `headway dev` tries it out\n", file)
		return err
	}
	return c
}

func versionCommand(env cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  `Version prints the version of this program and of Go, as --version does.`,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(env.Out, "%s %s\n", c.Root().Name(), c.Root().Version)
			return err
		},
	}
}
