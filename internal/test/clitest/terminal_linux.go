// Package clitest gives tests of commands a terminal.
package clitest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// Terminal returns both ends of a terminal of that width: person types and reads, command is what the command has.
func Terminal(t *testing.T, columns uint16) (person, command *os.File) {
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
	var unlocked, number int32
	control(t, person, syscall.TIOCSPTLCK, &unlocked)
	control(t, person, syscall.TIOCGPTN, &number)
	control(t, person, syscall.TIOCSWINSZ, &[4]uint16{50, columns})
	return person, open("/dev/pts/" + strconv.Itoa(int(number)))
}

func control[T any](t *testing.T, terminal *os.File, request uintptr, value *T) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, terminal.Fd(), request,
		uintptr(unsafe.Pointer(value))); errno != 0 { //nolint:gosec // an ioctl has no other way
		t.Fatal(errno)
	}
}

// Shown returns what run prints on a terminal of that width.
func Shown(t *testing.T, columns uint16, run func(terminal *os.File)) string {
	t.Helper()
	person, command := Terminal(t, columns)
	const end = "\x04"
	shown := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		part := make([]byte, 4096)
		for !bytes.HasSuffix(all.Bytes(), []byte(end)) {
			n, err := person.Read(part)
			if all.Write(part[:n]); err != nil {
				break
			}
		}
		shown <- strings.ReplaceAll(strings.TrimSuffix(all.String(), end), "\r\n", "\n")
	}()
	run(command)
	if _, err := command.WriteString(end); err != nil {
		t.Fatal(err)
	}
	return <-shown
}
