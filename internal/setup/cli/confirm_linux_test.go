package cli_test

import (
	"bufio"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/test/clitest"
)

func TestConfirm(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for typed, goesOn := range map[string]bool{
		"y\n": true, " YES \n": true, "n\n": false, "\n": false, "yesterday\n": false, "\x04": false, // the end of the input
	} {
		person, command := clitest.Terminal(t, 80)
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		err := cli.Confirm(t.Context(), cli.Environment{In: command, Err: command}, "%d tasks go", 3)
		if declined := (*cli.UsageError)(nil); (err == nil) != goesOn || err != nil && !errors.As(err, &declined) {
			t.Errorf("%q: %v", typed, err)
		}
	}
}

// The question is on the terminal before the answer is typed, and a signal ends it.
func TestConfirmIsInterrupted(t *testing.T) {
	t.Setenv("TERM", "xterm")
	person, command := clitest.Terminal(t, 80)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cli.Confirm(ctx, cli.Environment{In: command, Err: command}, "%d tasks go", 3) }()
	shown, err := bufio.NewReader(person).ReadString(']')
	if want := "headway: warning: 3 tasks go\r\nGo on? [y/N]"; err != nil || shown != want {
		t.Errorf("%q, %v, want %q", shown, err, want)
	}
	cancel()
	if err = <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err = person.WriteString("\n"); err != nil { // ends the read
		t.Error(err)
	}
}

// Without a terminal on both sides the command warns and goes on: a script can't answer.
func TestConfirmWithoutATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	_, command := clitest.Terminal(t, 80)
	var text strings.Builder
	for _, env := range []cli.Environment{
		{In: strings.NewReader("n\n"), Err: command}, {In: command, Err: &text},
	} {
		if err := cli.Confirm(t.Context(), env, "%d tasks go", 3); err != nil {
			t.Errorf("%+v: %v", env, err)
		}
	}
	if want := "headway: warning: 3 tasks go\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}
