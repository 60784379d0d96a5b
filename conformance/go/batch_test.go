package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
)

// requests is a file of n chats.
func requests(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":{"model":"m",`+
			`"max_tokens":20,"messages":[{"role":"user","content":"hello"}]}}`+"\n", i)
	}
	return b.String()
}

func upload(t *testing.T, text string) *openai.FileObject {
	t.Helper()
	c := client(t)
	f, err := c.Files.New(t.Context(), openai.FileNewParams{
		File: openai.File(strings.NewReader(text), "in.jsonl", "application/jsonl"), Purpose: openai.FilePurposeBatch,
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func create(t *testing.T, file string) *openai.Batch {
	t.Helper()
	c := client(t)
	b, err := c.Batches.New(t.Context(), openai.BatchNewParams{
		InputFileID: file, Endpoint: openai.BatchNewParamsEndpointV1ChatCompletions,
		CompletionWindow: openai.BatchNewParamsCompletionWindow24h, Metadata: map[string]string{"a.b": "c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ended waits until a batch has ended, by the word of the API.
func ended(t *testing.T, id string) *openai.Batch {
	t.Helper()
	c := client(t)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		b, err := c.Batches.Get(t.Context(), id)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(b, err)
		}
		switch b.Status {
		case openai.BatchStatusCompleted, openai.BatchStatusFailed, openai.BatchStatusExpired, openai.BatchStatusCancelled:
			return b
		}
	}
}

// names are the custom_ids of a file of results.
func names(t *testing.T, file string) map[string]int {
	t.Helper()
	c := client(t)
	found := map[string]int{}
	if file == "" {
		return found
	}
	res, err := c.Files.Content(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		var line struct {
			CustomID string `json:"custom_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		found[line.CustomID]++
	}
	return found
}

func TestBatch(t *testing.T) {
	c := client(t)
	file := upload(t, requests(20))
	b := create(t, file.ID)
	if b.Status != openai.BatchStatusValidating || b.ExpiresAt != b.CreatedAt+24*3600 || b.Metadata["a.b"] != "c" {
		t.Errorf("%s", b.RawJSON())
	}
	b = ended(t, b.ID)
	if b.Status != openai.BatchStatusCompleted || b.RequestCounts.Completed != 20 || b.RequestCounts.Total != 20 ||
		b.CompletedAt < b.InProgressAt || b.ErrorFileID != "" {
		t.Errorf("%s", b.RawJSON())
	}
	if found := names(t, b.OutputFileID); len(found) != 20 || found["c7"] != 1 {
		t.Error(found)
	}
	out, err := c.Files.Get(t.Context(), b.OutputFileID)
	if err != nil || out.Bytes < 20*100 || string(out.Purpose) != "batch_output" {
		t.Error(out, err)
	}
	for _, id := range []string{file.ID, b.OutputFileID} {
		if gone, err := c.Files.Delete(t.Context(), id); err != nil || !gone.Deleted {
			t.Error(gone, err)
		}
		var fault *openai.Error
		if _, err = c.Files.Content(t.Context(), id); !errors.As(err, &fault) || fault.StatusCode != http.StatusNotFound {
			t.Error(err)
		}
	}
}

func TestBatchOfBadLines(t *testing.T) {
	text := requests(1) + "nonsense\n" + requests(1)
	b := ended(t, create(t, upload(t, text).ID).ID)
	if b.Status != openai.BatchStatusFailed || len(b.Errors.Data) != 2 || b.Errors.Data[0].Line != 2 ||
		b.Errors.Data[0].Code != "invalid_json_line" || b.Errors.Data[1].Code != "duplicate_custom_id" {
		t.Errorf("%s", b.RawJSON())
	}
}

// A request that no limit can serve is an error of its own.
func TestBatchWithErrors(t *testing.T) {
	text := requests(2) + strings.ReplaceAll(strings.ReplaceAll(requests(1), `"c0"`, `"large"`), ":20", ":1000000")
	b := ended(t, create(t, upload(t, text).ID).ID)
	if b.Status != openai.BatchStatusCompleted || b.RequestCounts.Completed != 2 || b.RequestCounts.Failed != 1 {
		t.Errorf("%s", b.RawJSON())
	}
	if found := names(t, b.ErrorFileID); len(found) != 1 || found["large"] != 1 {
		t.Error(found)
	}
}

func TestCancelledBatch(t *testing.T) {
	c := client(t)
	b := create(t, upload(t, requests(300)).ID)
	for b.RequestCounts.Completed == 0 {
		time.Sleep(100 * time.Millisecond)
		var err error
		if b, err = c.Batches.Get(t.Context(), b.ID); err != nil {
			t.Fatal(err)
		}
	}
	b, err := c.Batches.Cancel(t.Context(), b.ID)
	if err != nil || b.Status != openai.BatchStatusCancelling {
		t.Fatal(b, err)
	}
	b = ended(t, b.ID)
	good, bad := names(t, b.OutputFileID), names(t, b.ErrorFileID)
	if b.Status != openai.BatchStatusCancelled || len(good) == 0 || len(good)+len(bad) != 300 ||
		len(good) != int(b.RequestCounts.Completed) {
		t.Errorf("%d, %d: %s", len(good), len(bad), b.RawJSON())
	}
	if _, err = c.Batches.Cancel(t.Context(), b.ID); err == nil {
		t.Error("a cancelled batch was cancelled")
	}
}

func TestLists(t *testing.T) {
	c := client(t)
	made := map[string]bool{}
	for range 5 {
		f := upload(t, requests(1))
		made[f.ID] = true
		made[create(t, f.ID).ID] = true
	}
	files := c.Files.ListAutoPaging(t.Context(), openai.FileListParams{Limit: openai.Int(2)})
	for files.Next() {
		delete(made, files.Current().ID)
	}
	batches := c.Batches.ListAutoPaging(t.Context(), openai.BatchListParams{Limit: openai.Int(2)})
	for batches.Next() {
		delete(made, batches.Current().ID)
	}
	if err := errors.Join(files.Err(), batches.Err()); err != nil || len(made) > 0 {
		t.Error(err, made)
	}
}

func TestUnknownFiles(t *testing.T) {
	c := client(t)
	for _, id := range []string{"file-x", "../../etc/passwd", "file-aaaaaaaaaaaaaaaaaaaaaaaaaa", "..", "batch_x"} {
		var fault *openai.Error
		if _, err := c.Files.Get(t.Context(), id); !errors.As(err, &fault) || fault.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
}
