package batch

import (
	"bytes"
	"encoding/csv"
)

// shapeBytes is how many of the first bytes Shape looks at.
const shapeBytes = 512

// Shape says what a file is in which not one line is a request, by its first bytes, and what to do about it. Both are
// empty if that is not clear.
func Shape(head []byte) (name, advice string) {
	head = bytes.TrimSpace(bytes.TrimPrefix(head[:min(len(head), shapeBytes)], []byte("\ufeff")))
	first, _, several := bytes.Cut(head, []byte("\n"))
	switch first = bytes.TrimSpace(first); {
	case bytes.HasPrefix(first, []byte("[")):
		return "a JSON array", "write its elements a line each, as in jq -c '.[]' FILE"
	case string(first) == "{" && several:
		return "JSON over several lines", "write each object on one line, as in jq -c . FILE"
	case !bytes.HasPrefix(first, []byte("{")) && isTable(head):
		return "a table (CSV)", "write a JSON object for each row, with custom_id, method, url and body"
	}
	return "", ""
}

// isTable says whether all rows, at least two, have as many columns, at least two, with one of the usual separators.
func isTable(head []byte) bool {
	if last := bytes.LastIndexByte(head, '\n'); last > 0 && len(head) > shapeBytes/2 {
		head = head[:last] // the last row may be cut
	}
	for _, separator := range ",;\t" {
		rows := csv.NewReader(bytes.NewReader(head))
		rows.Comma, rows.LazyQuotes = separator, true
		if all, err := rows.ReadAll(); err == nil && len(all) > 1 && len(all[0]) > 1 {
			return true
		}
	}
	return false
}
