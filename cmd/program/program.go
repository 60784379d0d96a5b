// Package program is the program headway. Its binaries are in the folders beside it, and tests of processes run it in a
// binary of their own.
package program

import (
	"github.com/headway-go/headway/cmd/internal/root"
	"github.com/headway-go/headway/internal/setup/cli"
)

// Main runs the command of os.Args, and returns its exit code.
func Main() int { return cli.Main(root.Command) }
