package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report is what a night showed.
type report struct {
	Began  time.Time `json:"began"`
	Commit string    `json:"commit"`
	Rows   []row     `json:"rows"`
}

// red are the names of the red rows.
func (r report) red() (names []string) {
	for _, row := range r.Rows {
		if row.Result == red {
			names = append(names, row.Name)
		}
	}
	return names
}

// write stores the report as report.json and as report.md.
func (r report) write(folder string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "report.json"), append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "report.md"), []byte(r.markdown()), 0o600)
	}
	return err
}

// markdown is the report for readers: a table, then each row that is not green, with the command that runs it again.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The night of %s, commit %s\n\n", r.Began.Format(time.DateOnly), r.Commit)
	b.WriteString("| step | shows | result | seconds | CPU seconds |\n|---|---|---|---:|---:|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %.0f |\n", row.Name, row.Shows, row.Result, row.Seconds, row.CPUSeconds)
	}
	for _, row := range r.Rows {
		if row.Result == green {
			continue
		}
		// The lines of a block that is indented need no escapes.
		fmt.Fprintf(&b, "\n## %s: %s\n\n    scripts/services run bash -c %q\n\n", row.Name, row.Result, row.Command)
		for _, line := range row.Why {
			fmt.Fprintf(&b, "    %s\n", strings.ToValidUTF8(line, "?"))
		}
	}
	return b.String()
}
