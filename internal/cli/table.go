package cli

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// between stands between two columns of a table.
const between = "  "

// Shape is one way to show a table: with all its columns, or with fewer and shorter ones. One of them may be cut where that makes it fit.
type Shape struct {
	// Rows are the cells, the header first, with the texts of the column that may be cut at most so wide.
	Rows func(width int) [][]string
	// Longest is how wide that column is as it is, and Least what has to be left of it. Both are zero where none may be cut.
	Longest, Least int
}

// Fit is the table in the first of the shapes that fits into so many columns, else in the last, cut. Zero columns are any number.
func Fit(columns int, shapes ...Shape) []string {
	var lines []string
	for _, s := range shapes {
		lines = Aligned(s.Rows(s.Longest))
		over := widest(lines) - columns
		if columns > 0 && over > 0 && s.Longest > s.Least {
			lines = Aligned(s.Rows(max(s.Least, s.Longest-over)))
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

// Aligned puts rows into columns of the same width, each on one line. What their texts hold for a terminal is shown,
// not done.
func Aligned(rows [][]string) []string {
	var widths []int
	lines := make([]string, len(rows))
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(Line(cell)))
		}
	}
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = Line(cell)
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + between)
		}
		lines[n] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

// Arrange puts as many parts on a line of so many columns as there is room for. A part that is longer than a line goes on in the next. Zero columns
// are any number.
func Arrange(parts []string, columns int) (lines []string) {
	if columns == 0 {
		return []string{strings.Join(parts, "; ")}
	}
	for _, part := range parts {
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1]+"; "+part) <= columns {
			lines[n-1] += "; " + part
			continue
		}
		line := ""
		for word := range strings.FieldsSeq(part) {
			switch {
			case line == "":
				line = word
			case utf8.RuneCountInString(line+" "+word) <= columns:
				line += " " + word
			default:
				lines, line = append(lines, Cut(line, columns)), word
			}
		}
		lines = append(lines, Cut(line, columns))
	}
	return lines
}

// Cut is a text, or the beginning of it that fits.
func Cut(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	return string(runes[:max(0, width-1)]) + "…"
}

// Day is the time of today, and the day before that, in this machine's zone.
func Day(at time.Time) string {
	at = at.Local()
	if time.Since(at) < 24*time.Hour {
		return at.Format("15:04")
	}
	return at.Format("Jan _2")
}

func widest(lines []string) int {
	if len(lines) == 0 {
		return 0
	}
	return utf8.RuneCountInString(slices.MaxFunc(lines, func(a, b string) int { return utf8.RuneCountInString(a) - utf8.RuneCountInString(b) }))
}
