// Command enqueue is `headway` under another name: `enqueue one` is `headway enqueue`.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/internal/headway"
	"github.com/headway-go/headway/internal/cli"
)

func main() { os.Exit(cli.Main(headway.Command)) }
