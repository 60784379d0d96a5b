package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Field is the value of a field, and where it is in its object.
type Field struct {
	Raw        json.RawMessage
	Start, End int
}

// judged are the fields that say which model a request uses, and what it takes.
func judged() []string {
	return []string{
		"model", "stream", "stream_options", "background", "messages", "input", "prompt", "instructions", "system", "suffix",
		"tools", "functions", "text", "response_format", "n", "best_of", "max_tokens", "max_completion_tokens",
		"max_output_tokens",
	}
}

// Fields returns the fields of an object as no provider reads them otherwise: none is there twice, and none that judges
// a request has capital letters, which a program in Go takes for the same field. The error continues a sentence.
func Fields(body []byte) (map[string]Field, error) {
	fields, names := map[string]Field{}, judged()
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, errors.New("is not valid JSON")
		}
		text, ok := name.(string)
		if _, twice := fields[text]; twice || !ok {
			return nil, fmt.Errorf("has the field %.60q twice", text)
		}
		for _, known := range names {
			if known != text && strings.EqualFold(known, text) {
				return nil, fmt.Errorf("has the field %.60q: write %q", text, known)
			}
		}
		var f Field
		if err := d.Decode(&f.Raw); err != nil {
			return nil, errors.New("is not valid JSON")
		}
		f.End = int(d.InputOffset())
		f.Start = f.End - len(f.Raw)
		fields[text] = f
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("is not valid JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has something behind its JSON object")
	}
	return fields, nil
}
