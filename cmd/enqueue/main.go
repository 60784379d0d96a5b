// Command enqueue is `headway` under another name: `enqueue one` is `headway enqueue`.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/program"
)

func main() { os.Exit(program.Main()) }
