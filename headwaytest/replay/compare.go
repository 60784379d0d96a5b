package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// errDiffer is that two traces differ, which is reported.
var errDiffer = fmt.Errorf("traces differ: %w", errRed)

// compareFiles shows the first place where two traces differ.
func compareFiles(a, b string, out io.Writer) error {
	first, err := os.Open(a) //nolint:gosec // the user names it
	if err != nil {
		return fmt.Errorf("open a trace: %w", err)
	}
	defer func() { _ = first.Close() }() // only read
	second, err := os.Open(b)            //nolint:gosec // the user names it
	if err != nil {
		return fmt.Errorf("open a trace: %w", err)
	}
	defer func() { _ = second.Close() }() // only read
	return compare(a, first, b, second, out)
}

// shown is how many lines are shown before and after the first difference.
const shown = 5

// compare compares two traces. The fleet and the last equal lines stand before the first difference.
func compare(nameA string, a io.Reader, nameB string, b io.Reader, out io.Writer) error {
	readA, readB := bufio.NewReader(a), bufio.NewReader(b)
	var before []string
	fleet := ""
	for n := 1; ; n++ {
		lineA, errA := readA.ReadString('\n')
		lineB, errB := readB.ReadString('\n')
		if err := errors.Join(notEnd(errA), notEnd(errB)); err != nil {
			return fmt.Errorf("read a trace: %w", err)
		}
		if lineA == lineB && lineA != "" {
			if isFleet(lineA) {
				fleet, before = lineA, nil
			}
			if before = append(before, lineA); len(before) > shown {
				before = before[1:]
			}
			continue
		}
		if lineA == lineB {
			_, _ = fmt.Fprintf(out, "equal: %d lines\n", n-1)
			return nil
		}
		_, _ = fmt.Fprintf(out, "--- %s\n+++ %s\n", nameA, nameB)
		if len(before) > 0 && before[0] != fleet && fleet != "" {
			_, _ = fmt.Fprintf(out, " %s...\n", strings.TrimSuffix(fleet, "\n"))
		}
		for _, line := range before {
			_, _ = fmt.Fprint(out, " "+line)
		}
		_, _ = fmt.Fprintf(out, "@@ line %d: the first that differs @@\n", n)
		show(out, "-", lineA, readA)
		show(out, "+", lineB, readB)
		return errDiffer
	}
}

// show shows a line and the next ones.
func show(out io.Writer, sign, line string, rest *bufio.Reader) {
	if line == "" {
		_, _ = fmt.Fprintln(out, sign+"(the end)")
		return
	}
	for range shown {
		_, _ = fmt.Fprint(out, sign+line)
		if line, _ = rest.ReadString('\n'); line == "" { // another error than the end shows itself as a shorter trace
			return
		}
	}
}

// notEnd returns an error that is not the end of a file.
func notEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// isFleet reports whether a line begins the trace of a fleet, as headwaytest writes it.
func isFleet(line string) bool {
	_, rest, _ := strings.Cut(line, " ")
	return strings.HasPrefix(rest, "fleet ")
}
