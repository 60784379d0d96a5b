// Package examples holds the example batch file, so that the demo runs from anywhere.
package examples

import _ "embed"

// Godoc is godoc.jsonl: some 400 chat requests in the OpenAI Batch input format.
//
//go:embed godoc.jsonl
var Godoc []byte
