package gateway

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/products/files"
)

const (
	// formMost bounds what a form has beside its file, and the name of the file, in bytes.
	formMost = 64 << 10
	nameMost = 255
	// filesListed is how many files a list has at most, and unless its caller says it.
	filesListed = 10_000
	// expiryLeast is the shortest life of a file, as OpenAI has it.
	expiryLeast = time.Hour
	// uploadPatience is how long an upload may take in all.
	uploadPatience = time.Hour
)

// fileObject is a file as clients decode it.
type fileObject struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Bytes    int64  `json:"bytes"`
	Created  int64  `json:"created_at"`
	Expires  *int64 `json:"expires_at"`
	Filename string `json:"filename"`
	Purpose  string `json:"purpose"`
	Status   string `json:"status"` // deprecated by OpenAI, and required by its clients
}

func fileOf(r owned.Record[files.File]) fileObject {
	return fileObject{
		ID: r.ID, Object: "file", Bytes: r.Value.Bytes, Created: r.Created.Unix(), Expires: unix(r.Expires),
		Filename: r.Value.Name, Purpose: r.Value.Purpose, Status: "processed",
	}
}

// writeJSON answers with an object.
func writeJSON(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object) // an error means that the caller has gone
}

// patientBody is the body of a request, of which each part has its time to arrive, and all together.
type patientBody struct {
	io.Reader

	control *http.ResponseController
	until   time.Time
}

func (b *patientBody) Read(p []byte) (int, error) {
	now := time.Now()
	if now.After(b.until) {
		return 0, errors.New("the upload takes too long")
	}
	_ = b.control.SetReadDeadline(now.Add(bodyPatience)) // a recorder in a test has none
	return b.Reader.Read(p)
}

// form is what an upload says beside its content.
type form struct {
	upload  *files.Upload
	fields  map[string]string
	name    string
	expires time.Time
}

// uploadFile stores a file. Its content is stored as it arrives.
func (g *Gateway) uploadFile(w http.ResponseWriter, r *http.Request, key keys.Key, _ string) *fault {
	control := http.NewResponseController(w)
	body := &patientBody{r.Body, control, time.Now().Add(uploadPatience)}
	if r.ContentLength > g.batching.Files.Most()+formMost {
		return g.fileTooLarge()
	}
	r.Body = http.MaxBytesReader(w, io.NopCloser(body), g.batching.Files.Most()+formMost)
	f := form{fields: map[string]string{}}
	problem := g.readUpload(r, key.Tenant, &f)
	if problem == nil {
		problem = f.check(time.Now())
	}
	if problem != nil {
		if f.upload != nil {
			f.upload.Drop(r.Context())
		}
		return problem
	}
	_ = control.SetReadDeadline(time.Time{})
	stored, err := f.upload.Keep(r.Context(), files.File{Name: f.name, Purpose: files.PurposeBatch}, f.expires)
	if err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	writeJSON(w, fileOf(stored))
	return nil
}

func (g *Gateway) fileTooLarge() *fault {
	return &fault{
		status: http.StatusRequestEntityTooLarge, code: "file_too_large", param: "file", noRetry: true,
		header:  http.Header{"Connection": {"close"}},
		message: fmt.Sprintf("The file is above the %d bytes that this gateway takes (--max-file).", g.batching.Files.Most()),
	}
}

func (g *Gateway) storageFull() *fault {
	return &fault{
		status: http.StatusBadRequest, code: "storage_full", param: "file", noRetry: true,
		header: http.Header{"Connection": {"close"}},
		message: fmt.Sprintf("With this file, the files of your tenant would take more than the %d bytes that it may "+
			"store (--max-stored): delete files that you do not need.", g.batching.Files.Stored()),
	}
}

// readUpload reads a form with a file of a tenant.
func (g *Gateway) readUpload(r *http.Request, tenant string, f *form) *fault {
	incomplete := &fault{
		status: http.StatusBadRequest, message: "The form can't be read: it is not complete.",
		header: http.Header{"Connection": {"close"}},
	}
	parts, err := r.MultipartReader()
	if err != nil {
		return &fault{status: http.StatusBadRequest, message: "The body is not multipart/form-data with a boundary."}
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return incomplete
		}
		if part.FormName() != "file" {
			if !f.read(part) {
				return incomplete
			}
			continue
		}
		if f.upload != nil {
			return &fault{status: http.StatusBadRequest, param: "file", message: "The form has several files."}
		}
		f.name = part.FileName()
		f.upload, err = g.batching.Files.Write(r.Context(), tenant, part, r.ContentLength)
		switch large := (*http.MaxBytesError)(nil); {
		case errors.Is(err, files.ErrTooLarge), errors.As(err, &large):
			return g.fileTooLarge()
		case errors.Is(err, files.ErrFull):
			return g.storageFull()
		case errors.Is(err, documents.ErrUnavailable):
			return g.recordFault(r.Context(), filesPath, err)
		case err != nil:
			g.config.Logger.WarnContext(r.Context(), "a file was not stored", slog.String("error", err.Error()))
			return incomplete
		}
	}
}

// read reads a field of the form. Ok is false if it can't be read, or is too long.
func (f *form) read(part *multipart.Part) (ok bool) {
	text, err := io.ReadAll(io.LimitReader(part, formField+1))
	if err != nil || len(text) > formField || len(f.fields) > 20 {
		return false
	}
	f.fields[part.FormName()] = string(text)
	return true
}

// check says what is wrong in a form.
func (f *form) check(now time.Time) *fault {
	wrong := func(param, format string, args ...any) *fault {
		return &fault{status: http.StatusBadRequest, param: param, message: fmt.Sprintf(format, args...)}
	}
	switch purpose := f.fields["purpose"]; {
	case f.upload == nil:
		return wrong("file", "The form has no file.")
	case purpose != files.PurposeBatch:
		return wrong("purpose", "The purpose is %.40q: this gateway stores files for batches only (purpose=batch).", purpose)
	case f.name == "" || len(f.name) > nameMost || !utf8.ValidString(f.name) || strings.ContainsFunc(f.name, isControl):
		return wrong("file", "The file has no usable name: at most %d bytes of UTF-8 without control characters.", nameMost)
	}
	text, limited := f.fields["expires_after[seconds]"]
	if !limited {
		return nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	life := time.Duration(min(max(seconds, 0), int64(2*files.Retention/time.Second))) * time.Second
	if err != nil || life < expiryLeast || life > files.Retention || f.fields["expires_after[anchor]"] != "created_at" {
		return wrong("expires_after", "expires_after must have the anchor created_at, and from %.0f to %.0f seconds.",
			expiryLeast.Seconds(), files.Retention.Seconds())
	}
	f.expires = now.Add(life)
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// listFiles lists the files of a tenant.
func (g *Gateway) listFiles(w http.ResponseWriter, r *http.Request, key keys.Key, _ string) *fault {
	page, problem := pageOf(r, filesListed, filesListed)
	if problem != nil {
		return problem
	}
	found, more, err := g.batching.Files.List(r.Context(), key.Tenant, page)
	if err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	data := []any{}
	for _, f := range found {
		if purpose := r.URL.Query().Get("purpose"); purpose == "" || purpose == f.Value.Purpose {
			data = append(data, fileOf(f))
		}
	}
	writeList(w, found, more, data)
	return nil
}

// showFile answers with the record of a file.
func (g *Gateway) showFile(w http.ResponseWriter, r *http.Request, key keys.Key, id string) *fault {
	found, err := g.batching.Files.Get(r.Context(), key.Tenant, id)
	if err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	writeJSON(w, fileOf(found))
	return nil
}

// deleteFile deletes a file. A batch of it goes on.
func (g *Gateway) deleteFile(w http.ResponseWriter, r *http.Request, key keys.Key, id string) *fault {
	if err := g.batching.Files.Remove(r.Context(), key.Tenant, id); err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	writeJSON(w, map[string]any{"id": id, "object": "file", "deleted": true})
	return nil
}

// slowWriter gives each part of an answer its time.
type slowWriter struct {
	http.ResponseWriter

	control *http.ResponseController
}

func (w slowWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(bodyPatience)) // a recorder in a test has none
	return w.ResponseWriter.Write(p)
}

// contentBuffer is how much of a content is in memory, in bytes.
const contentBuffer = 64 << 10

// sendContent sends the content of a file: as it was uploaded, or made of the results of a batch so far.
func (g *Gateway) sendContent(w http.ResponseWriter, r *http.Request, key keys.Key, id string) *fault {
	b := g.batching
	to := slowWriter{w, http.NewResponseController(w)}
	if batch, kind, made := resultsOf(id); made {
		j, err := b.jobs.Get(r.Context(), key.Tenant, batch)
		if err == nil && j.Value.ended() { // its record may have been deleted
			_, err = b.Files.Get(r.Context(), key.Tenant, id)
		}
		if err != nil {
			return g.recordFault(r.Context(), filesPath, err)
		}
		w.Header().Set("Content-Type", "application/jsonl")
		out := bufio.NewWriterSize(to, contentBuffer)
		if _, err = b.writeResults(r.Context(), j, kind, out); err == nil {
			err = out.Flush()
		}
		if err != nil { // a caller must not take the part for the whole
			g.config.Logger.WarnContext(r.Context(), "the results of a batch were not sent",
				slog.String("error", err.Error()))
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	f, err := b.Files.Get(r.Context(), key.Tenant, id)
	if err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	content, err := b.Files.Read(r.Context(), id)
	if err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	defer func() { _ = content.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(f.Value.Bytes, 10))
	_, err = io.CopyBuffer(to, content, make([]byte, contentBuffer)) // a part ends the connection, by its length
	if errors.Is(err, files.ErrNoContent) || errors.Is(err, documents.ErrUnavailable) {
		g.config.Logger.WarnContext(r.Context(), "a file was not sent", slog.String("error", err.Error()))
	}
	return nil
}
