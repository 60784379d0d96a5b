// Command worker is `headway` under another name: `worker run` is `headway worker`.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/internal/headway"
	"github.com/headway-go/headway/internal/cli"
)

func main() { os.Exit(cli.Main(headway.Command)) }
