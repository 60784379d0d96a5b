package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/bench/field"
	"github.com/headway-go/headway/bench/library"
	"github.com/headway-go/headway/bench/works"
)

func listCommand(env cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List works and contestants",
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
			line := func(format string, a ...any) { _, _ = fmt.Fprintf(w, format, a...) } // Flush returns the error
			line("WORK\t\t\n")
			for _, one := range works.All(false) {
				line("%s\t(%s)\t%s\n", one.Name, one.Letter, one.About)
			}
			about, _ := library.About()
			line("%s\t(g)\t%s\n\t\t\nCONTESTANT\t\t\n", reservationsWork, about)
			for _, c := range field.All() {
				line("%s\t\t%s\n", c.Name(), c.About())
			}
			return w.Flush()
		},
	}
}
