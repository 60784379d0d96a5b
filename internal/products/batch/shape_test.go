package batch_test

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/products/batch"
)

func TestShape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{"custom_id":"a"}]`:                    "a JSON array",
		"\ufeff\n [\n{}]":                        "a JSON array",
		"{\r\n  \"custom_id\": \"a\"\n}":         "JSON over several lines",
		"id,prompt\n1,hi":                        "a table (CSV)",
		"id;prompt\n1;hi":                        "a table (CSV)",
		"id\tprompt\r\n1\thi":                    "a table (CSV)",
		`{"custom_id":"a","method":"POST"}`:      "",
		"{":                                      "",
		"// Of texts, and files.\npackage main":  "",
		"package main":                           "",
		"":                                       "",
		strings.Repeat("x", 600) + ",a":          "",
		"\n\n" + strings.Repeat("\"x\",1\n", 99): "a table (CSV)",
	} {
		name, advice := batch.Shape([]byte(text))
		if name != want || (advice == "") != (want == "") {
			t.Errorf("%.40q is %q: %q", text, name, advice)
		}
	}
}
