package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headway-go/headway/internal/batch"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// between stands between the limits of a batch where they are kept as one text.
const between = ", "

// maker makes tasks of the lines of a batch.
type maker struct {
	from  *source
	model string // empty: each line's own
}

// task is the task of a line, of no batch yet. The error tells why it can never be served.
func (m maker) task(line batch.Line) (llm.Chat, error) {
	body, err := withModel(line.Body, m.model)
	if err != nil {
		return llm.Chat{}, err
	}
	task, err := m.from.chat(body)
	task.CustomID = line.CustomID
	return task, err
}

// withModel is the body with another model in it.
func withModel(body json.RawMessage, model string) (json.RawMessage, error) {
	if model == "" {
		return body, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, err
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	fields["model"] = name
	return json.Marshal(fields)
}

// each calls good for every task of the file, and faulty for every line that is none. Unique says that no custom_id is there twice.
func (m maker) each(file io.Reader, unique bool, good func(batch.Line, llm.Chat) error, faulty func(error)) error {
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
			faulty(&batch.LineError{Line: line.Number, Field: "body", Err: err})
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

// of makes a task that of a line of a batch.
func of(batch string, line, round int, task llm.Chat) tasks.Args {
	task.Batch = &tasks.BatchRef{Batch: batch, Line: line, Round: round}
	return task
}
