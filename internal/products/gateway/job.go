package gateway

import (
	"encoding/json"
	"time"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/documents/owned"
)

// The states of a batch, as OpenAI documents them.
const (
	stateValidating = "validating"
	stateFailed     = "failed"
	stateInProgress = "in_progress"
	stateFinalizing = "finalizing"
	stateCompleted  = "completed"
	stateExpired    = "expired"
	stateCancelling = "cancelling"
	stateCancelled  = "cancelled"
)

// job is the record of a batch.
type job struct {
	Endpoint string          `bson:"endpoint"`
	Input    string          `bson:"input"` // the ID of a file
	Name     string          `bson:"name"`  // of that file
	Window   string          `bson:"window"`
	Until    time.Time       `bson:"until"`              // the end of the window
	Metadata json.RawMessage `bson:"metadata,omitempty"` // an object; names may be any text
	Key      keys.Key        `bson:"key"`                // what the requests may do; it has no secret

	State  string         `bson:"state"`
	At     map[string]int `bson:"at,omitempty"` // when the states began, in seconds
	Faults []lineFault    `bson:"faults,omitempty"`
	// Late says that the window ended: the requests without a result are being taken back.
	Late bool `bson:"late,omitempty"`
	Sent bool `bson:"sent,omitempty"`
	// Total is how many requests there are, and Done and Failed how many have ended: final once the batch has ended.
	Total  int `bson:"total,omitempty"`
	Done   int `bson:"done,omitempty"`
	Failed int `bson:"failed,omitempty"`
	// Output and Errors are the IDs of files of results.
	Output string `bson:"output,omitempty"`
	Errors string `bson:"errors,omitempty"`
}

// lineFault is a line that makes a batch fail, as clients decode it.
type lineFault struct {
	Code    string  `bson:"code"            json:"code"`
	Message string  `bson:"message"         json:"message"`
	Param   *string `bson:"param,omitempty" json:"param"`
	Line    *int    `bson:"line,omitempty"  json:"line"`
}

// ended says whether the batch stays as it is.
func (j *job) ended() bool {
	switch j.State {
	case stateFailed, stateCompleted, stateExpired, stateCancelled:
		return true
	}
	return false
}

// enter begins a state. A batch that has ended, or is cancelled, enters no earlier one.
func (j *job) enter(state string, now time.Time) bool {
	order := map[string]int{
		stateValidating: 0, stateInProgress: 1, stateCancelling: 2, stateFinalizing: 3,
		stateFailed: 4, stateCompleted: 4, stateExpired: 4, stateCancelled: 4,
	}
	if order[state] <= order[j.State] {
		return false
	}
	if j.At == nil {
		j.At = map[string]int{}
	}
	j.State, j.At[state] = state, int(now.Unix())
	return true
}

// batchObject is a batch as clients decode it.
type batchObject struct {
	ID         string          `json:"id"`
	Object     string          `json:"object"`
	Endpoint   string          `json:"endpoint"`
	Errors     *faultList      `json:"errors"`
	Input      string          `json:"input_file_id"`
	Window     string          `json:"completion_window"`
	Status     string          `json:"status"`
	Output     *string         `json:"output_file_id"`
	ErrorFile  *string         `json:"error_file_id"`
	Created    int64           `json:"created_at"`
	InProgress *int            `json:"in_progress_at"`
	Expires    *int64          `json:"expires_at"`
	Finalizing *int            `json:"finalizing_at"`
	Completed  *int            `json:"completed_at"`
	Failed     *int            `json:"failed_at"`
	Expired    *int            `json:"expired_at"`
	Cancelling *int            `json:"cancelling_at"`
	Cancelled  *int            `json:"cancelled_at"`
	Counts     requestCounts   `json:"request_counts"`
	Metadata   json.RawMessage `json:"metadata"`
}

type faultList struct {
	Object string      `json:"object"`
	Data   []lineFault `json:"data"`
}

type requestCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// batchOf is a batch with its counts.
func batchOf(r owned.Record[job], c batches.Counts) batchObject {
	j := r.Value
	at := func(state string) *int {
		if seconds, known := j.At[state]; known {
			return &seconds
		}
		return nil
	}
	named := func(id string) *string {
		if id == "" {
			return nil
		}
		return &id
	}
	o := batchObject{
		ID: r.ID, Object: "batch", Endpoint: j.Endpoint, Input: j.Input, Window: j.Window, Status: j.State,
		Output: named(j.Output), ErrorFile: named(j.Errors), Created: r.Created.Unix(), Expires: unix(j.Until),
		InProgress: at(stateInProgress), Finalizing: at(stateFinalizing), Completed: at(stateCompleted),
		Failed: at(stateFailed), Expired: at(stateExpired), Cancelling: at(stateCancelling),
		Cancelled: at(stateCancelled), Counts: requestCounts{j.Total, c.Done, c.Failed}, Metadata: j.Metadata,
	}
	if j.ended() {
		o.Counts.Completed, o.Counts.Failed = j.Done, j.Failed
	}
	if len(j.Faults) > 0 {
		o.Errors = &faultList{Object: "list", Data: j.Faults}
	}
	return o
}
