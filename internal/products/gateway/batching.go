package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/products/files"
	"github.com/headway-go/headway/scheduler"
)

// Batching is what files and batches need. RunBatches runs the batches.
type Batching struct {
	Files   *files.Store
	Results *batches.Store
	// Records are where files, batches and the work of gateways are recorded.
	Records documents.Store
	// Scheduler enqueues the requests of batches, in the Redis Queue.
	Scheduler *scheduler.Scheduler
	Queue     redis.UniversalClient
}

// batching is Batching with its records.
type batching struct {
	Batching

	jobs     *owned.Records[job]
	work     work
	counters bounded.Map[string, *batches.Counter]
}

// countersKept is how many batches have a counter in memory.
const countersKept = 200

func newBatching(b *Batching) *batching {
	if b == nil {
		return nil
	}
	return &batching{
		Batching: *b, jobs: owned.New[job](b.Records.Collection("gateway_batches"), nil),
		work:     work{in: b.Records.Collection("gateway_work"), kick: make(chan struct{}, 1)},
		counters: bounded.Map[string, *batches.Counter]{Most: countersKept},
	}
}

// EnsureIndexes makes sure of the indexes of the records.
func (b *Batching) EnsureIndexes(ctx context.Context) error {
	all := newBatching(b)
	return errors.Join(b.Files.EnsureIndexes(ctx), all.jobs.EnsureIndexes(ctx), all.work.in.EnsureIndexes(ctx))
}

// The endpoints of files and batches.
const (
	filesPath   = "/v1/files"
	batchesPath = "/v1/batches"
)

// batchingPath finds the endpoint of files or batches in a path, and what follows it.
func batchingPath(path string) (endpoint, rest string, ok bool) {
	for _, endpoint = range []string{filesPath, batchesPath} {
		if after, found := strings.CutPrefix(path, endpoint); found && (after == "" || after[0] == '/') {
			return endpoint, after, true
		}
	}
	return "", "", false
}

// recordID is what the ID of a file or of a batch looks like. Others are never looked up.
var recordID = regexp.MustCompile(`^(file-[a-z0-9]{26}(-output|-errors)?|batch_[a-z0-9]{26})$`)

// serveBatching answers a request for files and batches. A caller sees what its tenant has.
func (g *Gateway) serveBatching(w http.ResponseWriter, r *http.Request, to route, key keys.Key) {
	if g.batching == nil {
		writeFault(w, to.family, fault{
			status: http.StatusNotImplemented, code: "files_not_configured", noRetry: true,
			message: "This gateway stores no files and runs no batches: it was started with --files none.",
		})
		return
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(to.rest, "/"), "/")
	if to.rest != "" && !recordID.MatchString(id) {
		writeFault(w, to.family, *unknownRecord(to.endpoint))
		return
	}
	shape := r.Method + " " + strings.TrimPrefix(to.endpoint, "/v1/")
	if to.rest != "" {
		shape += "/ID"
	}
	if action != "" {
		shape += "/" + action
	}
	serve, known := map[string]func(http.ResponseWriter, *http.Request, keys.Key, string) *fault{
		"POST files": g.uploadFile, "GET files": g.listFiles, "GET files/ID": g.showFile,
		"DELETE files/ID": g.deleteFile, "GET files/ID/content": g.sendContent,
		"POST batches": g.createBatch, "GET batches": g.listBatches, "GET batches/ID": g.showBatch,
		"POST batches/ID/cancel": g.cancelBatch,
	}[shape]
	problem := &fault{
		status: http.StatusMethodNotAllowed, code: "method_not_supported",
		message: "This URL does not exist, or does not take this method.",
	}
	if known {
		problem = serve(w, r, key, id)
	}
	if problem != nil {
		writeFault(w, to.family, *problem)
	}
}

// unknownRecord is the answer for a record that does not exist, or is another tenant's.
func unknownRecord(endpoint string) *fault {
	return &fault{
		status: http.StatusNotFound, code: "not_found", param: "id",
		message: fmt.Sprintf("There is none of the %s with this ID.", strings.TrimPrefix(endpoint, "/v1/")),
	}
}

// recordFault is the answer for an error of records. Details of a store are for the log.
func (g *Gateway) recordFault(ctx context.Context, endpoint string, err error) *fault {
	if errors.Is(err, owned.ErrUnknown) {
		return unknownRecord(endpoint)
	}
	if errors.Is(err, files.ErrUsed) {
		return &fault{
			status: http.StatusBadRequest, code: "too_many_batches", param: "input_file_id", noRetry: true,
			message: "Too many batches of this file have not ended: upload it again.",
		}
	}
	if ctx.Err() == nil {
		g.config.Logger.WarnContext(ctx, "records of files and batches", slog.String("error", err.Error()))
	}
	if errors.Is(err, documents.ErrUnavailable) {
		return &fault{
			status: http.StatusServiceUnavailable, code: "records_unavailable", retry: againMost,
			message: "The store of files and batches does not answer.",
		}
	}
	return &fault{
		status: http.StatusInternalServerError, code: "records_failed",
		message: "The record can't be read or stored: the log of the gateway says why.",
	}
}

// listed is a page of a list, as clients decode it.
type listed struct {
	Object string `json:"object"`
	Data   []any  `json:"data"`
	First  string `json:"first_id,omitempty"`
	Last   string `json:"last_id,omitempty"`
	More   bool   `json:"has_more"`
}

// writeList answers with a page of records. Data is how clients see the ones that are shown.
func writeList[T any](w http.ResponseWriter, found []owned.Record[T], more bool, data []any) {
	l := listed{Object: "list", Data: data, More: more}
	if len(found) > 0 {
		l.First, l.Last = found[0].ID, found[len(found)-1].ID
	}
	writeJSON(w, l)
}

// pageOf reads the query of a list.
func pageOf(r *http.Request, usual, most int) (owned.Page, *fault) {
	q := r.URL.Query()
	p := owned.Page{After: q.Get("after"), Limit: usual, Oldest: q.Get("order") == "asc"}
	wrong := func(param, message string) (owned.Page, *fault) {
		return p, &fault{status: http.StatusBadRequest, param: param, message: message}
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return wrong("limit", fmt.Sprintf("limit must be a number from 1 to %d.", most))
		}
		p.Limit = n
	}
	if order := q.Get("order"); order != "" && order != "asc" && order != "desc" {
		return wrong("order", "order must be asc or desc.")
	}
	if p.After != "" && !recordID.MatchString(p.After) {
		return wrong("after", "after must be the ID of a record of the list.")
	}
	return p, nil
}

// unix is a time as clients decode it; nil if there is none.
func unix(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	seconds := at.Unix()
	return &seconds
}
