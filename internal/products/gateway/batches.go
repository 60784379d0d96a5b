package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/documents/owned"
	"github.com/headway-go/headway/internal/products/files"
	"github.com/headway-go/headway/internal/text/period"
)

const (
	// batchesListed and batchesListedMost are how many batches a list has.
	batchesListed, batchesListedMost = 20, 100
	// windowMost is the longest completion window. Results live for 30 days, each from its own end.
	windowMost = 14 * 24 * time.Hour
	// metadataMost, metadataName and metadataValue bound the metadata, as OpenAI's do.
	metadataMost, metadataName, metadataValue = 16, 64, 512
)

// batchRequest is the body that creates a batch.
type batchRequest struct {
	Input    string            `json:"input_file_id"`
	Endpoint string            `json:"endpoint"`
	Window   string            `json:"completion_window"`
	Metadata map[string]string `json:"metadata"`
}

// check says what is wrong in the body, and returns the length of the window.
func (b batchRequest) check() (window time.Duration, problem *fault) {
	wrong := func(param, format string, args ...any) (time.Duration, *fault) {
		return 0, &fault{status: http.StatusBadRequest, param: param, message: fmt.Sprintf(format, args...)}
	}
	window, err := period.Parse(b.Window)
	switch {
	case !recordID.MatchString(b.Input):
		return wrong("input_file_id", "input_file_id must be the ID of an uploaded file.")
	case !slices.Contains(openai.Endpoints(), b.Endpoint):
		return wrong("endpoint", "endpoint must be one of %s.", strings.Join(openai.Endpoints(), ", "))
	case err != nil || window <= 0 || window > windowMost:
		return wrong("completion_window", "completion_window must look like 24h, and be at most 14d.")
	case len(b.Metadata) > metadataMost:
		return wrong("metadata", "metadata must have at most %d pairs.", metadataMost)
	}
	for name, value := range b.Metadata {
		if len(name) > metadataName || len(value) > metadataValue {
			return wrong("metadata", "metadata must have names of at most %d bytes, and values of at most %d.", metadataName,
				metadataValue)
		}
	}
	return window, nil
}

// createBatch starts a batch of a file. The same Idempotency-Key gives the same batch.
func (g *Gateway) createBatch(w http.ResponseWriter, r *http.Request, key keys.Key, _ string) *fault {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, formMost))
	var body batchRequest
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil {
		return &fault{status: http.StatusBadRequest, message: "The body is not the JSON object of a batch."}
	}
	window, problem := body.check()
	if problem != nil {
		return problem
	}
	b, now := g.batching, time.Now()
	input, err := b.Files.Get(r.Context(), key.Tenant, body.Input)
	if err == nil && input.Value.Purpose != files.PurposeBatch {
		return &fault{status: http.StatusBadRequest, param: "input_file_id", message: "The file has another purpose " +
			"than batch."}
	}
	id := owned.NewID("batch_")
	if said := r.Header.Get("Idempotency-Key"); said != "" {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", len(key.Tenant), key.Tenant, said))
		id = "batch_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:26])
	}
	expires := now.Add(window + files.Retention)
	if err == nil { // first: whatever a gateway that is killed here leaves ends with its work
		err = b.work.add(r.Context(), id, workHead{Owner: key.Tenant, Input: body.Input}, now)
	}
	if err == nil {
		err = b.Files.Pin(r.Context(), body.Input, id, expires)
	}
	metadata, _ := json.Marshal(body.Metadata) // texts have no fault
	record := owned.Record[job]{
		ID: id, Owner: key.Tenant, Created: now, Expires: expires, Value: job{
			Endpoint: body.Endpoint, Input: body.Input, Name: input.Value.Name, Window: body.Window,
			Until: now.Add(window).UTC().Truncate(time.Second), Metadata: metadata, Key: key, State: stateValidating,
		},
	}
	if err == nil {
		record, err = b.jobs.Create(r.Context(), record)
	}
	if errors.Is(err, owned.ErrExists) {
		record, err = b.jobs.Get(r.Context(), key.Tenant, id)
	}
	if err != nil {
		return g.recordFault(r.Context(), filesPath, err)
	}
	b.work.wake()
	return g.answerBatch(w, r, record)
}

// answerBatch answers with a batch as it is now.
func (g *Gateway) answerBatch(w http.ResponseWriter, r *http.Request, record owned.Record[job]) *fault {
	shown, err := g.batching.shown(r.Context(), record)
	if err != nil {
		return g.recordFault(r.Context(), batchesPath, err)
	}
	writeJSON(w, shown)
	return nil
}

// shown is a batch with its present counts.
func (b *batching) shown(ctx context.Context, record owned.Record[job]) (batchObject, error) {
	var counts batches.Counts
	if !record.Value.ended() && record.Value.Total > 0 {
		p, err := b.progress(ctx, record.ID)
		if err != nil && !errors.Is(err, batches.ErrUnknownBatch) {
			return batchObject{}, err
		}
		counts = p.Counts
	}
	return batchOf(record, counts), nil
}

// progress counts the results of a batch.
func (b *batching) progress(ctx context.Context, id string) (batches.Progress, error) {
	var counter *batches.Counter
	b.counters.Change(id, func(known **batches.Counter) {
		if *known == nil {
			*known = b.Results.Counter(id)
		}
		counter = *known
	})
	return counter.Progress(ctx)
}

// listBatches lists the batches of a tenant.
func (g *Gateway) listBatches(w http.ResponseWriter, r *http.Request, key keys.Key, _ string) *fault {
	page, problem := pageOf(r, batchesListed, batchesListedMost)
	if problem != nil {
		return problem
	}
	found, more, err := g.batching.jobs.List(r.Context(), key.Tenant, page)
	if err != nil {
		return g.recordFault(r.Context(), batchesPath, err)
	}
	data := []any{}
	for _, record := range found {
		shown, err := g.batching.shown(r.Context(), record)
		if err != nil {
			return g.recordFault(r.Context(), batchesPath, err)
		}
		data = append(data, shown)
	}
	writeList(w, found, more, data)
	return nil
}

// showBatch answers with one batch.
func (g *Gateway) showBatch(w http.ResponseWriter, r *http.Request, key keys.Key, id string) *fault {
	record, err := g.batching.jobs.Get(r.Context(), key.Tenant, id)
	if err != nil {
		return g.recordFault(r.Context(), batchesPath, err)
	}
	return g.answerBatch(w, r, record)
}

// cancelBatch cancels a batch. Its waiting requests are taken back; running ones come to their end.
func (g *Gateway) cancelBatch(w http.ResponseWriter, r *http.Request, key keys.Key, id string) *fault {
	b := g.batching
	record, err := b.jobs.Change(r.Context(), key.Tenant, id, func(r *owned.Record[job]) bool {
		return r.Value.enter(stateCancelling, time.Now())
	})
	if err != nil {
		return g.recordFault(r.Context(), batchesPath, err)
	}
	if record.Value.State != stateCancelling {
		return &fault{
			status: http.StatusConflict, code: "batch_not_cancellable", noRetry: true,
			message: fmt.Sprintf("The batch is %s: it can't be cancelled any more.", record.Value.State),
		}
	}
	if err = b.Results.Cancel(r.Context(), id); err != nil && !errors.Is(err, batches.ErrUnknownBatch) {
		return g.recordFault(r.Context(), batchesPath, err)
	}
	if err = b.work.hasten(r.Context(), id, time.Now()); err != nil {
		return g.recordFault(r.Context(), batchesPath, err)
	}
	return g.answerBatch(w, r, record)
}
