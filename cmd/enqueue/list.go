package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/cli"
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
	return append(cli.Arrange([]string{head}, columns), cli.Arrange(f.parts(), columns)...)
}

// list is a table of batches that fits into so many columns; zero is any number. A narrow one has shorter texts and no limits, and where that is not enough no
// times, then no files.
func list(all []figures, columns int) []string {
	if len(all) == 0 {
		return []string{"no batches"}
	}
	longest := 0
	for _, f := range all {
		longest = max(longest, utf8.RuneCountInString(filepath.Base(f.Name)))
	}
	return cli.Fit(
		columns,
		cli.Shape{Rows: func(int) [][]string { return wide(all) }},
		cli.Shape{Rows: func(width int) [][]string { return narrow{created: true, file: width}.rows(all) }, Longest: longest, Least: fileShown},
		cli.Shape{Rows: func(width int) [][]string { return narrow{file: width}.rows(all) }, Longest: longest, Least: fileShown},
		cli.Shape{Rows: func(int) [][]string { return narrow{}.rows(all) }},
	)
}

// wide has all that there is.
func wide(all []figures) [][]string {
	c := countsOf(all)
	rows := [][]string{append([]string{"BATCH", "CREATED", "FILE", "LIMIT"}, append(c.header(), "END")...)}
	for _, f := range all {
		rows = append(rows, append([]string{f.Batch, f.Created.Local().Format(time.DateTime), f.Name, f.Limit}, append(c.of(f), f.end())...))
	}
	return rows
}

// narrow is a table without limits, and with shorter texts. How it goes is told before when it began, and that before of which file it is.
type narrow struct {
	created bool
	file    int // how much of its name; zero for nothing
}

func (n narrow) rows(all []figures) [][]string {
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
		name := cli.Cut(filepath.Base(f.Name), max(1, n.file))
		rows = append(rows, row(prefix(f.Batch, all), cli.Day(f.Created), name, append(c.of(f), f.endShort())...))
	}
	return rows
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
