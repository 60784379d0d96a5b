package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

const (
	// idShown is how much of a batch's name a narrow table has at least; the commands want no more.
	idShown = 8
	// fileShown is how much of a file's name it has at least.
	fileShown = 8
)

// whole is all about one batch, in lines that fit into so many columns; zero is any number.
func (f *figures) whole(columns int) []string {
	head := fmt.Sprintf("batch %s of %s, for limit %s, since %s", f.Batch, f.Name, f.Limit, f.Created.Local().Format(time.DateTime))
	if columns == 0 {
		return []string{head, f.text()}
	}
	return append(arrange([]string{head}, columns), arrange(f.parts(), columns)...)
}

// list is a table of batches that fits into so many columns; zero is any number. A narrow one has shorter texts and no limits, and where that is not enough no
// times, then no files.
func list(all []figures, columns int) []string {
	if len(all) == 0 {
		return []string{"no batches"}
	}
	c := countsOf(all)
	rows := [][]string{append([]string{"BATCH", "CREATED", "FILE", "LIMIT"}, append(c.header(), "END")...)}
	for _, f := range all {
		rows = append(rows, append([]string{f.Batch, f.Created.Local().Format(time.DateTime), f.Name, f.Limit}, append(c.of(f), f.end())...))
	}
	lines := aligned(rows)
	if columns == 0 || widest(lines) <= columns {
		return lines
	}
	longest := 0
	for _, f := range all {
		longest = max(longest, utf8.RuneCountInString(filepath.Base(f.Name)))
	}
	for _, shape := range []narrow{{created: true, file: longest}, {file: longest}, {}} {
		lines = shape.lines(all)
		over := widest(lines) - columns
		if over > 0 && shape.file > fileShown { // a short name before none
			shape.file = max(fileShown, shape.file-over)
			lines = shape.lines(all)
		}
		if widest(lines) <= columns {
			return lines
		}
	}
	for i, line := range lines {
		lines[i] = cut(line, columns)
	}
	return lines
}

// narrow is a table without limits, and with shorter texts. How it goes is told before when it began, and that before of which file it is.
type narrow struct {
	created bool
	file    int // how much of its name; zero for nothing
}

func (n narrow) lines(all []figures) []string {
	row := func(id, created, file string, rest ...string) []string {
		cells := []string{id}
		if n.created {
			cells = append(cells, created)
		}
		if n.file > 0 {
			cells = append(cells, file)
		}
		return append(cells, rest...)
	}
	c := countsOf(all)
	rows := [][]string{row("BATCH", "CREATED", "FILE", append(c.header(), "END")...)}
	for _, f := range all {
		name := cut(filepath.Base(f.Name), max(1, n.file))
		rows = append(rows, row(prefix(f.Batch, all), day(f.Created), name, append(c.of(f), f.endShort())...))
	}
	return aligned(rows)
}

// prefix is as much of the name as is needed to tell it from the others.
func prefix(id string, all []figures) string {
	for n := idShown; n < len(id); n++ { // a name has letters of one byte only
		if !slices.ContainsFunc(all, func(f figures) bool { return f.Batch != id && strings.HasPrefix(f.Batch, id[:n]) }) {
			return id[:n]
		}
	}
	return id
}

// counted are the numbers of a table.
type counted struct{ cancelled bool } // some are

func countsOf(all []figures) counted {
	return counted{cancelled: slices.ContainsFunc(all, func(f figures) bool { return f.Cancelled > 0 })}
}

func (c counted) header() []string { return c.columns("DONE", "FAILED", "CANCELLED", "WAITING") }

func (c counted) of(f figures) []string {
	return c.columns(strconv.Itoa(f.Done), strconv.Itoa(f.Failed), strconv.Itoa(f.Cancelled), strconv.Itoa(f.Waiting))
}

func (c counted) columns(done, failed, cancelled, waiting string) []string {
	if !c.cancelled {
		return []string{done, failed, waiting}
	}
	return []string{done, failed, cancelled, waiting}
}

// day is the time of today, and the day before that.
func day(at time.Time) string {
	at = at.Local()
	if time.Since(at) < 24*time.Hour {
		return at.Format("15:04")
	}
	return at.Format("Jan _2")
}

// aligned puts the rows into columns of the same width.
func aligned(rows [][]string) []string {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // to memory
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

func widest(lines []string) int {
	return utf8.RuneCountInString(slices.MaxFunc(lines, func(a, b string) int { return utf8.RuneCountInString(a) - utf8.RuneCountInString(b) }))
}
