package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The bounds of a file. The time and memory of the parser grow with the square of the depth and of the number of
// tokens.
const (
	bytesMost  = 64 << 10
	tokensMost = 10_000
	textMost   = 1000 // bytes of one name, value or comment
	depthMost  = 32
	// writtenMost bounds the size of the file in bytes, with a copy of each anchor at each use.
	writtenMost = 256 << 10
	// problemMost bounds the text of a fault and of its field, in bytes. faultsMost bounds the number of listed
	// faults.
	problemMost = 500
	faultsMost  = 100
)

var errBounds = errors.New("too large for a file of settings")

// bounded refuses a text for which the parser would need more memory than any settings do.
func bounded(text []byte) error {
	if len(text) > bytesMost {
		return fmt.Errorf("%w: %d bytes, at most %d", errBounds, len(text), bytesMost)
	}
	tokens := lexer.Tokenize(string(text))
	if len(tokens) > tokensMost {
		return fmt.Errorf("%w: %d tokens, at most %d", errBounds, len(tokens), tokensMost)
	}
	if i := slices.IndexFunc(tokens, func(t *token.Token) bool { return len(t.Value) > textMost }); i >= 0 {
		t := tokens[i]
		return fmt.Errorf("%w: line %d has a text of %d bytes, at most %d",
			errBounds, t.Position.Line, len(t.Value), textMost)
	}
	if depth := depthOf(tokens); depth > depthMost {
		return fmt.Errorf("%w: values are nested more than %d deep", errBounds, depthMost)
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return err
	}
	anchors, sum := map[string]int{}, 0
	for _, doc := range file.Docs {
		if sum += written(doc.Body, anchors); sum > writtenMost {
			return fmt.Errorf("%w: more than %d bytes with a copy of each anchor at each use", errBounds, writtenMost)
		}
	}
	return nil
}

// depthOf returns the largest nesting of values, by brackets, by indentation, and by the values that a line opens.
func depthOf(tokens token.Tokens) int {
	most, brackets, opened, line := 0, 0, 0, 0
	var columns []int // the indentation of the enclosing lines
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

// written returns the size of a node in bytes, plus one for each value in it. Anchors are the sizes of the anchors so
// far.
func written(node ast.Node, anchors map[string]int) int {
	sum := 1
	switch n := node.(type) {
	case nil:
	case *ast.MappingNode:
		for _, v := range n.Values {
			sum += written(v, anchors)
		}
	case *ast.MappingValueNode:
		sum += written(n.Key, anchors) + written(n.Value, anchors)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			sum += written(v, anchors)
		}
	case *ast.TagNode:
		sum += written(n.Value, anchors)
	case *ast.AnchorNode:
		sum += written(n.Value, anchors)
		anchors[n.Name.String()] = sum
	case *ast.AliasNode:
		sum += anchors[n.Value.String()]
	case *ast.LiteralNode:
		sum += len(n.Value.Value)
	default:
		sum += len(n.GetToken().Value)
	}
	return min(sum, writtenMost+1)
}

// shortened cuts the text of a problem.
func shortened(text string) string {
	text = strings.TrimRight(text, " \n")
	if len(text) > problemMost {
		text = strings.ToValidUTF8(text[:problemMost], "") + "…"
	}
	return text
}
