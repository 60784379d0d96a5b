package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of a file. The parser needs memory for the square of the depth and for each use of an anchor.
const (
	bytesMost  = 256 << 10
	depthMost  = 32
	valuesMost = 100_000 // with each anchor counted wherever it is used
	// problemMost bounds the text of a fault, in bytes.
	problemMost = 500
)

var errBounds = errors.New("too large for a file of settings")

// bounded refuses a text that would take the parser more memory than settings can need.
func bounded(text []byte) error {
	if len(text) > bytesMost {
		return fmt.Errorf("%w: %d bytes, at most %d", errBounds, len(text), bytesMost)
	}
	if depth := depthOf(lexer.Tokenize(string(text))); depth > depthMost {
		return fmt.Errorf("%w: values stand more than %d deep in each other", errBounds, depthMost)
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return err
	}
	anchors, sum := map[string]int{}, 0
	for _, doc := range file.Docs {
		if sum += values(doc.Body, anchors); sum > valuesMost {
			return fmt.Errorf("%w: more than %d values, with each anchor counted wherever it is used", errBounds, valuesMost)
		}
	}
	return nil
}

// depthOf is how deep values stand in each other at most, by brackets, by indentation, and by what a line opens.
func depthOf(tokens token.Tokens) int {
	most, brackets, opened, line := 0, 0, 0, 0
	var columns []int // where the lines begin that hold the present one
	for _, t := range tokens {
		if t.Position.Line != line {
			line, opened = t.Position.Line, 0
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		switch t.Type { //nolint:exhaustive // the others open nothing
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			opened++
		case token.MappingValueType:
			if brackets == 0 {
				opened++
			}
		}
		most = max(most, brackets+opened+len(columns))
	}
	return most
}

// values counts the values of a node. Anchors are the counts of those that were met.
func values(node ast.Node, anchors map[string]int) int {
	sum := 1
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			sum += values(v, anchors)
		}
	case *ast.MappingValueNode:
		sum += values(n.Value, anchors)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			sum += values(v, anchors)
		}
	case *ast.TagNode:
		sum += values(n.Value, anchors)
	case *ast.AnchorNode:
		sum += values(n.Value, anchors)
		anchors[n.Name.String()] = sum
	case *ast.AliasNode:
		sum += anchors[n.Value.String()]
	}
	return min(sum, valuesMost+1)
}

// shortened is the beginning of a problem.
func shortened(text string) string {
	text = strings.TrimRight(text, " \n")
	if len(text) > problemMost {
		text = strings.ToValidUTF8(text[:problemMost], "") + "…"
	}
	return text
}
