package main

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/cli"
)

const (
	// errorLeast is how many letters of an error a narrow line has at least.
	errorLeast = 16
	// errorFirst is how many it has at least before types and attempts are told.
	errorFirst = 32
)

// deadTable shows tasks in lines that fit into so many columns; zero is any number. A narrow one has shorter times and errors; where that is not enough
// no types and attempts, and the state where one is not dead, then only the ID and the error. Its first line is the header.
func deadTable(tasks []deadtasks.Task, columns int) []string {
	longest := 0
	for _, t := range tasks {
		longest = max(longest, utf8.RuneCountInString(errorOf(t)))
	}
	shape := func(n narrowDead, least int) cli.Shape {
		return cli.Shape{Rows: func(width int) [][]string { return n.rows(tasks, width) }, Longest: longest, Least: least}
	}
	return cli.Fit(
		columns,
		cli.Shape{Rows: func(int) [][]string { return wideDead(tasks) }},
		shape(narrowDead{how: true, where: true}, errorFirst), shape(narrowDead{where: true}, errorLeast), shape(narrowDead{}, errorLeast),
	)
}

// errorOf is the beginning of the error of a task.
func errorOf(t deadtasks.Task) string { return cli.Printable(firstLetters(t.Error, errorShown)) }

// wideDead have all that there is.
func wideDead(tasks []deadtasks.Task) [][]string {
	rows := [][]string{{"ID", "QUEUE", "TYPE", "STATE", "AT", "ATTEMPTS", "ERROR"}}
	for _, t := range tasks {
		rows = append(rows, []string{
			t.ID, t.Queue, t.Type, stateOfDead(t), t.At.Format(time.RFC3339), strconv.Itoa(len(t.Attempts)), errorOf(t),
		})
	}
	return rows
}

// narrowDead is a table with shorter texts. The ID is whole: the commands want it so.
type narrowDead struct{ how, where bool }

// rows have so much of an error.
func (n narrowDead) rows(tasks []deadtasks.Task, width int) [][]string {
	alive := slices.ContainsFunc(tasks, func(t deadtasks.Task) bool { return t.State != deadtasks.StateDead })
	line := func(id, queue, kind, state, at, attempts, failure string) []string {
		cells := []string{id}
		if n.where {
			cells = append(cells, queue)
		}
		if n.how {
			cells = append(cells, kind)
		}
		if n.where && alive {
			cells = append(cells, state)
		}
		if n.where {
			cells = append(cells, at)
		}
		if n.how {
			cells = append(cells, attempts)
		}
		return append(cells, failure)
	}
	rows := [][]string{line("ID", "QUEUE", "TYPE", "STATE", "AT", "ATTEMPTS", "ERROR")}
	for _, t := range tasks {
		rows = append(rows, line(t.ID, t.Queue, t.Type, string(t.State), cli.Day(t.At), strconv.Itoa(len(t.Attempts)), cli.Cut(errorOf(t), width)))
	}
	return rows
}
