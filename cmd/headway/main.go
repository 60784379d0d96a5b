// Command headway runs fleets of workers at exactly the limit that they share, enqueues tasks, and shows what waits and
// why. `headway --help` lists its commands.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/program"
)

func main() { os.Exit(program.Main()) }
