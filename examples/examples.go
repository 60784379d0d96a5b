// Package examples embeds the example batch file, so that the demo runs in any folder.
package examples

import _ "embed"

// Godoc is godoc.jsonl: about 400 chat requests in the OpenAI Batch input format.
//
//go:embed godoc.jsonl
var Godoc []byte
