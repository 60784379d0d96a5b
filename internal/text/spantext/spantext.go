// Package spantext makes texts of tasks fit for spans.
package spantext

import "strings"

// most bounds a text, in bytes.
const most = 1000

// Of returns a text as valid UTF-8, and at most the beginning of a long one. An exporter that meets another text drops
// the spans of all tasks that it sends together.
func Of(text string) string { return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD") }
