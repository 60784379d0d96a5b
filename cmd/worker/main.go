// Command worker is `headway` under another name: `worker run` is `headway worker`.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/internal/root"
	"github.com/headway-go/headway/internal/setup/cli"
)

func main() { os.Exit(cli.Main(root.Command)) }
