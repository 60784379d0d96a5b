package gateway

import (
	"bufio"
	"context"
	"errors"
	"strings"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/products/batch"
	"github.com/headway-go/headway/internal/products/files"
	"github.com/headway-go/headway/internal/products/record"
)

// The kinds of files of results: the end of their IDs.
const (
	kindOutput = "-output"
	kindErrors = "-errors"
)

// resultsID is the ID of a file of results of a batch.
func resultsID(batch, kind string) string {
	return "file-" + strings.TrimPrefix(batch, "batch_") + kind
}

// resultsOf is the batch of a file of results.
func resultsOf(id string) (batch, kind string, ok bool) {
	for _, kind = range []string{kindOutput, kindErrors} {
		if name, found := strings.CutSuffix(id, kind); found {
			return "batch_" + strings.TrimPrefix(name, "file-"), kind, true
		}
	}
	return "", "", false
}

// writeResults writes a file of results as far as they are there, in the order of the lines, and returns its size.
// Requests of a batch that was cancelled or has expired are errors if they have no result.
func (b *batching) writeResults(
	ctx context.Context, j owned.Record[job], kind string, to *bufio.Writer,
) (size int64, err error) {
	for r, err := range b.Results.All(ctx, j.ID) {
		if err != nil && !errors.Is(err, batches.ErrMalformed) {
			return size, err
		}
		switch {
		case err != nil && r.Line == 0:
			continue // it is no request
		case err != nil:
			r.Failure = &batches.Failure{Code: record.CodeFailed, Message: "The stored result can't be read."}
		case r.Finished.IsZero():
			if r.Failure = j.Value.without(); r.Failure == nil {
				continue
			}
		}
		if r.Failed() != (kind == kindErrors) {
			continue
		}
		n, err := to.Write(batch.AppendOutput(to.AvailableBuffer(), r))
		if size += int64(n); err != nil {
			return size, err
		}
	}
	return size, nil
}

// without is why requests of an ended batch have no result; nil if they may still get one.
func (j *job) without() *batches.Failure {
	switch j.State {
	case stateCancelling, stateCancelled:
		return record.Cancelled()
	case stateExpired:
		return &batches.Failure{
			Code:    record.CodeExpired,
			Message: "This request could not be executed before the completion window expired.",
		}
	}
	return nil
}

// discard counts what is written to it.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// storeOutputs stores the records of the files of results, if they have any line. They live as long as the results.
func (b *batching) storeOutputs(ctx context.Context, j owned.Record[job]) (output, faults string, err error) {
	for kind, id := range map[string]*string{kindOutput: &output, kindErrors: &faults} {
		size, err := b.writeResults(ctx, j, kind, bufio.NewWriterSize(discard{}, contentBuffer))
		if err != nil {
			return "", "", err
		}
		if size == 0 {
			continue
		}
		*id = resultsID(j.ID, kind)
		_, err = b.Files.Create(ctx, owned.Record[files.File]{
			ID: *id, Owner: j.Owner, Expires: j.Created.Add(files.Retention), Value: files.File{
				Name: j.ID + kind + ".jsonl", Purpose: files.PurposeOutput, Bytes: size, Batch: j.ID,
			},
		})
		if err != nil && !errors.Is(err, owned.ErrExists) {
			return "", "", err
		}
	}
	return output, faults, nil
}
