// Command worker is `headway` under another name: `worker run` is `headway worker`.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/program"
)

func main() { os.Exit(program.Main()) }
