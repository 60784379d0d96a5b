package cli

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// Column is a column of a table with several levels of detail. Level 0 is the widest; each further level is narrower.
type Column struct {
	Head string
	// Until is the last level with the column. Below zero means no level.
	Until int
	// Least is, by level, the smallest width to which cells may be cut so that the table fits. At a level of zero, or
	// a missing one, cells are not cut. At each level one column may be cut.
	Least []int
}

// Table returns the header and the rows at the first level that fits into columns. If none fits, it cuts the last
// level. Zero columns mean any width. Cells returns the texts of a row at a level, one for each head.
func Table[R any](rows []R, columns int, heads []Column, cells func(row R, level int) []string) (lines []string) {
	last := slices.MaxFunc(heads, func(a, b Column) int { return a.Until - b.Until }).Until
	for level := range last + 1 {
		shown := make([][]string, len(rows)+1)
		texts := make([][]string, len(rows))
		for n, row := range rows {
			texts[n] = cells(row, level)
		}
		cut, least, longest := 0, 0, 0
		for i, head := range heads {
			if head.Until < level {
				continue
			}
			if level < len(head.Least) && head.Least[level] > 0 {
				cut, least = len(shown[0]), head.Least[level]
			}
			shown[0] = append(shown[0], head.Head)
			for n := range rows {
				shown[n+1] = append(shown[n+1], Line(texts[n][i]))
			}
		}
		lines = Aligned(shown)
		over := widest(lines) - columns
		if columns > 0 && over > 0 && least > 0 {
			for _, row := range shown[1:] {
				longest = max(longest, utf8.RuneCountInString(row[cut]))
			}
			for _, row := range shown[1:] {
				row[cut] = Cut(row[cut], max(least, longest-over))
			}
			lines = Aligned(shown)
			over = widest(lines) - columns
		}
		if columns == 0 || over <= 0 {
			return lines
		}
	}
	for i, line := range lines {
		lines[i] = Cut(line, columns)
	}
	return lines
}

// Aligned puts rows into aligned columns, one line each. It escapes control characters: see Line.
func Aligned(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for _, cell := range row {
			fmt.Fprint(w, Line(cell)+"\t")
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a Builder has no error
	lines := make([]string, 0, len(rows))
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return lines
}

// Arrange puts as many parts on a line as fit into columns. A part that is longer than a line continues on the next
// one. Zero columns mean any width.
func Arrange(parts []string, columns int) (lines []string) {
	if columns == 0 {
		return []string{strings.Join(parts, "; ")}
	}
	for _, part := range parts {
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1]+"; "+part) <= columns {
			lines[n-1] += "; " + part
			continue
		}
		for line := range strings.SplitSeq(wrap(part, columns), "\n") {
			lines = append(lines, Cut(line, columns))
		}
	}
	return lines
}

// Cut returns a text, or its longest beginning that fits.
func Cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:max(0, width-1)]) + "…"
}

// Day returns the time of day if at is less than 24 hours ago, else the date, in UTC.
func Day(at time.Time) string {
	at = at.UTC()
	if time.Since(at) < 24*time.Hour {
		return at.Format("15:04Z")
	}
	return at.Format("Jan _2")
}

func widest(lines []string) (columns int) {
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	return columns
}
