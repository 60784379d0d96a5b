package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/cli"
)

// between stands between the limits of a batch where they are kept as one text.
const between = ", "

// each calls good for every task of the file, and faulty for every line that is none. Unique says that no custom_id is there twice.
func (m maker) each(file io.Reader, unique bool, good func(batch.Line, request) error, faulty func(error)) error {
	reader := batch.NewReader(file, batch.Config{Unique: unique})
	for {
		line, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if fault := (*batch.LineError)(nil); errors.As(err, &fault) {
			faulty(fault)
			continue
		}
		if err != nil {
			return err
		}
		task, err := m.task(line)
		if err != nil {
			fault := &batch.LineError{Line: line.Number, Field: "body", Err: err}
			if line.HTTP() {
				fault.Field = ""
			}
			faulty(fault)
			continue
		}
		if err := good(line, task); err != nil {
			return err
		}
	}
}

// name says what a batch is: the same content, sent to the same limits and model, is the same batch.
func (m maker) name(hash string) (id string, err error) {
	for _, b := range m.from.buckets {
		if strings.Contains(b.String(), between) {
			return "", &cli.UsageError{Err: fmt.Errorf("--limit %s: the key of a batch can't hold %q", b, between)}
		}
	}
	sum := sha256.Sum256([]byte("headway batch 1\n" + hash + "\n" + m.from.String() + "\n" + m.model))
	return hex.EncodeToString(sum[:8]), nil
}
