// Command provider runs the stand-in provider as a process of its own. Its first line on stdout is its base URL. It
// serves until SIGTERM or an interrupt, and then prints its report: a summary on a terminal, else one line of JSON.
package main

import (
	"os"

	"github.com/headway-go/headway/internal/products/provider/program"
)

func main() { os.Exit(program.Main()) }
