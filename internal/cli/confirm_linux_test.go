package cli_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/headway-go/headway/internal/cli"
)

// openTerminal returns both ends of a terminal: person types and reads, command is what the command has.
func openTerminal(t *testing.T) (person, command *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		fd, err := syscall.Open(name, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Skipf("no terminal: %s: %v", name, err)
		}
		f := os.NewFile(uintptr(fd), name)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	person = open("/dev/ptmx")
	control := func(request uintptr) (n int32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request,
			uintptr(unsafe.Pointer(&n))); errno != 0 {
			t.Fatal(errno)
		}
		return n
	}
	control(syscall.TIOCSPTLCK) // unlocks it
	return person, open("/dev/pts/" + strconv.Itoa(int(control(syscall.TIOCGPTN))))
}

func TestConfirm(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for typed, goesOn := range map[string]bool{
		"y\n": true, " YES \n": true, "n\n": false, "\n": false, "yesterday\n": false, "\x04": false, // the end of the input
	} {
		person, command := openTerminal(t)
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
	person, command := openTerminal(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cli.Confirm(ctx, cli.Environment{In: command, Err: command}, "%d tasks go", 3) }()
	shown, err := bufio.NewReader(person).ReadString(']')
	if want := "headway: warning: 3 tasks go\r\nGo on? [y/N]"; err != nil || shown != want {
		t.Errorf("%q, %v, want %q", shown, err, want)
	}
	cancel()
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err = person.WriteString("\n"); err != nil { // ends the read
		t.Error(err)
	}
}

// Without a terminal on both sides the command warns and goes on: a script can't answer.
func TestConfirmWithoutATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	_, command := openTerminal(t)
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
