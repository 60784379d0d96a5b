package main

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/cli"
)

// byShown is how much of who has set a limit a narrow table has at least.
const byShown = 6

// limitsTable shows limits in lines that fit into so many columns; zero is any number. A narrow one has shorter times, and keys where there are some;
// where that is not enough no bursts, then not who has set them, and when. In colour those that were set stand out.
func limitsTable(rows []listed, columns int, colour bool) string {
	longest := 0
	for _, r := range rows {
		longest = max(longest, utf8.RuneCountInString(cli.Printable(r.SetBy)))
	}
	shape := func(n narrowLimits) cli.Shape {
		return cli.Shape{Rows: func(width int) [][]string { return n.rows(rows, width) }, Longest: longest, Least: byShown}
	}
	lines := cli.Fit(
		columns,
		cli.Shape{Rows: func(int) [][]string { return wideLimits(rows) }},
		shape(narrowLimits{bursts: true, by: true}), shape(narrowLimits{by: true}), cli.Shape{Rows: func(int) [][]string { return narrowLimits{}.rows(rows, 0) }},
	)
	for i, r := range rows {
		if colour && r.Override != nil {
			lines[i+1] = "\x1b[1m" + lines[i+1] + "\x1b[0m"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// wideLimits have all that there is.
func wideLimits(rows []listed) [][]string {
	cells := [][]string{{"LIMIT", "METER", "KEY", "CONFIGURED", "SET", "BY", "AT"}}
	for _, r := range rows {
		at := ""
		if r.SetAt != nil {
			at = r.SetAt.UTC().Format(time.RFC3339)
		}
		if r.Ignored != "" {
			at += "  ignored: " + r.Ignored
		}
		cells = append(cells, []string{r.Limit, r.Meter, r.Key, r.Configured.String(), r.Override.String(), r.SetBy, at})
	}
	return cells
}

// narrowLimits is a table with shorter texts. What is set is told before who has set it.
type narrowLimits struct{ bursts, by bool }

// rows have so much of who has set a limit.
func (n narrowLimits) rows(rows []listed, width int) [][]string {
	keyed := slices.ContainsFunc(rows, func(r listed) bool { return r.Key != "" })
	line := func(limit, meter, key, configured, set, by, at string) []string {
		cells := []string{limit, meter}
		if keyed {
			cells = append(cells, key)
		}
		if cells = append(cells, configured, set); n.by {
			cells = append(cells, by, at)
		}
		return cells
	}
	cells := [][]string{line("LIMIT", "METER", "KEY", "CONFIGURED", "SET", "BY", "AT")}
	for _, r := range rows {
		at, set := "", n.rate(r.Override)
		if r.SetAt != nil {
			at = cli.Day(*r.SetAt)
		}
		if r.Ignored != "" {
			set += " (ignored)"
		}
		cells = append(cells, line(r.Limit, r.Meter, r.Key, n.rate(r.Configured), set, cli.Cut(cli.Printable(r.SetBy), width), at))
	}
	return cells
}

func (n narrowLimits) rate(r *listedRate) string {
	if r == nil || n.bursts {
		return r.String()
	}
	return r.Rate
}
