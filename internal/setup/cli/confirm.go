package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// errDeclined is the answer no.
var errDeclined = errors.New("nothing was done")

// Confirm prints a warning, and on a terminal asks whether to go on. The error says that the answer is no, or that ctx
// has ended. Without a terminal the command goes on.
func Confirm(ctx context.Context, env Environment, format string, args ...any) error {
	Warn(env, format, args...)
	in, ok := env.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) || !IsTerminal(env.Err) {
		return nil
	}
	fmt.Fprint(env.Err, "Go on? [y/N] ")
	answer := make(chan string, 1)
	go func() { // ends with the process: a read from a terminal can't be interrupted
		line, _ := bufio.NewReader(in).ReadString('\n') // an end of the input is a no
		answer <- line
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-answer:
		if said := strings.ToLower(strings.TrimSpace(line)); said != "y" && said != "yes" {
			return &UsageError{Err: errDeclined}
		}
		return nil
	}
}
