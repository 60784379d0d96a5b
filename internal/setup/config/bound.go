package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	// The bounds of a file: its bytes, the bytes of one name or value, how deep values are nested, and how many values
	// its aliases stand for.
	bytesMost   = 64 << 10
	textMost    = 1000
	depthMost   = 32
	aliasedMost = 10_000
	// problemMost bounds the text of a fault and of its field, in bytes. faultsMost bounds the number of listed
	// faults.
	problemMost = 500
	faultsMost  = 100
)

// parsed returns the settings of a file; nil for a file without any. All names are texts, and so are times, as in JSON.
func parsed(text []byte) (settings map[string]any, err error) {
	if len(text) > bytesMost {
		return nil, fmt.Errorf("too large for a file of settings: %d bytes, at most %d", len(text), bytesMost)
	}
	bounds := yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(depthMost), loaderlimits.AliasValue(aliasedMost)))
	loader, err := yaml.NewLoader(bytes.NewReader(text), bounds)
	var whole yaml.Node
	if err == nil {
		err = loader.Load(&whole)
	}
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil && !errors.Is(loader.Load(new(yaml.Node)), io.EOF) {
		err = errors.New("a second document after ---, where one map of settings must be")
	}
	if err == nil {
		err = texts(&whole)
	}
	if err == nil && whole.Content[0].Kind == yaml.SequenceNode {
		err = errors.New("a list, where a map of settings must be")
	}
	if err == nil {
		err = whole.Load(&settings, bounds)
	}
	if fault, ok := errors.AsType[*yaml.LoadError](err); ok {
		err = fmt.Errorf("line %d: %s", fault.Mark.Line, strings.TrimPrefix(fault.ContextMsg+": "+fault.Message, ": "))
	}
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %s%s", shortened(err.Error()), unquoted(text))
	}
	return settings, nil
}

// octal is a number that begins with a zero.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// texts makes the names in maps texts, and times. The error is of a text that is too long, or of a number that begins
// with a zero.
func texts(n *yaml.Node) error {
	if len(n.Value) > textMost {
		return fmt.Errorf("line %d: a text of %d bytes, at most %d", n.Line, len(n.Value), textMost)
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" && octal.MatchString(n.Value) {
		return fmt.Errorf("line %d: %s is octal for some readers of YAML and decimal for others: write the number without "+
			"the first 0, or quote a text", n.Line, n.Value)
	}
	for i, c := range n.Content {
		name := n.Kind == yaml.MappingNode && i%2 == 0 && c.ShortTag() != "!!merge"
		if name || c.ShortTag() == "!!timestamp" {
			c.Tag = "!!str"
		}
		if err := texts(c); err != nil {
			return err
		}
	}
	return nil
}

// shortened cuts the text of a problem.
func shortened(text string) string {
	text = strings.TrimRight(text, " \n")
	if len(text) > problemMost {
		text = strings.ToValidUTF8(text[:problemMost], "") + "…"
	}
	return text
}
