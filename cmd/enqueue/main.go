// Command enqueue is `headway` under another name: `enqueue one` is `headway enqueue`.
package main

import (
	"os"

	"github.com/headway-go/headway/cmd/internal/root"
	"github.com/headway-go/headway/internal/setup/cli"
)

func main() { os.Exit(cli.Main(root.Command)) }
