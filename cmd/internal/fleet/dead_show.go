package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/setup/cli"
)

// payloadShown is how many bytes of a payload are shown; export has all.
const payloadShown = 4000

func deadShowCommand(env cli.Environment) *cobra.Command {
	var queue string
	var asJSON bool
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show the record of a task that failed: errors, charges, payload",
		Long: `Show prints the record of a task that failed, in each queue that has one: why it died, the error of each
attempt, its charges, and its payload. A missing number is an attempt whose worker died before it could report the
attempt. The exit code is 1 if there is no record.`,
		Example: `  headway dead show report-42
  headway dead show report-42 --json | jq .payload`,
		Args: cli.Named("the ID of a task"),
	}
	c.Flags().StringVar(&queue, "queue", "", "look in this `queue` only")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line, as export does")
	c.RunE = func(c *cobra.Command, args []string) error {
		store, done, err := openDead(c.Context(), env, nil)
		if err != nil {
			return err
		}
		defer done()
		found, err := recordsOf(c.Context(), store, queue, args[0])
		if err != nil {
			return err
		}
		for i, t := range found {
			switch {
			case asJSON:
				if err := encoderTo(env.Out).Encode(wholeRowOf(t)); err != nil {
					return err
				}
			default:
				if i > 0 {
					fmt.Fprintln(env.Out)
				}
				printDead(screenOf(env), t, time.Now())
			}
		}
		return nil
	}
	return c
}

// printDead shows the sentence, then what it rests on, then the payload.
func printDead(s screen, t deadtasks.Task, now time.Time) {
	fmt.Fprintf(s, "%s\n\n", s.title(cli.Line(
		fmt.Sprintf("Task %s (%s) in queue %s %s.", t.ID, t.Type, t.Queue, explained.Record(t)))))
	var rows [][]string
	row := func(name, text string) {
		if text != "" {
			rows = append(rows, []string{name, text})
		}
	}
	row("at", cli.Moment(t.At, now))
	rows = append(rows, cli.TextRows("error", t.Error)...)
	for i, a := range t.Attempts {
		name := [...]string{"attempts", ""}[min(i, 1)]
		text := fmt.Sprintf("%d  %s  after %s  %s", a.Number, a.At.UTC().Format(time.RFC3339),
			cli.Seconds(a.Elapsed.Seconds()), cli.FirstLine(a.Error, 2*errorShown, "..."))
		if a.Worker != "" {
			text += "  (" + a.Worker + ")"
		}
		rows = append(rows, []string{name, text})
	}
	charges, err := envelope.Charges(asynq.NewTaskWithHeaders(t.Type, nil, t.Headers))
	if err != nil {
		row("charges", err.Error())
	}
	for i, c := range charges {
		name := [...]string{"charges", ""}[min(i, 1)]
		rows = append(rows, []string{name, c.Bucket().String() + ": " + cli.Tokens(c.Tokens)})
	}
	if t.MaxRetry > 0 { // else it never died, and its options are not kept
		row("retries", strconv.Itoa(retriesOf(t)))
	}
	if t.Timeout > 0 {
		row("timeout", t.Timeout.String())
	}
	row("deadline", cli.Moment(t.Deadline, now))
	for _, at := range t.Requeues {
		row("requeued", cli.Moment(at, now))
	}
	s.table(rows)
	if text := payloadText(t); text != "" {
		fmt.Fprintf(cli.Data(s.Writer), "\n%s\n", cli.Printable(text))
	}
}

func payloadText(t deadtasks.Task) string {
	switch {
	case t.Missing > 0:
		return fmt.Sprintf("The payload of %d bytes is too large for a record; it is in asynq's archive.", t.Missing)
	case !utf8.Valid(t.Payload):
		return fmt.Sprintf("The payload has %d bytes that are not UTF-8; `headway dead show --json` prints them as "+
			"base64.", len(t.Payload))
	case len(t.Payload) > payloadShown:
		return strings.ToValidUTF8(string(t.Payload[:payloadShown]), "") +
			fmt.Sprintf("...\n(%d bytes; `headway dead show --json` prints all)", len(t.Payload))
	}
	return string(t.Payload)
}

// deadRow is a record as the commands write it.
type deadRow struct {
	ID       string           `json:"id"`
	Queue    string           `json:"queue"`
	Type     string           `json:"type"`
	State    deadtasks.State  `json:"state"`
	At       time.Time        `json:"at"`
	Cause    deadletter.Cause `json:"cause,omitempty"`
	Error    string           `json:"error"`
	Batch    string           `json:"batch,omitempty"`
	Requeues []time.Time      `json:"requeued_at,omitempty"`
	Attempts []deadAttempt    `json:"attempts"`

	// The rest is left out of lists.
	MaxRetry  *int              `json:"max_retry,omitempty"`
	Timeout   float64           `json:"timeout_seconds,omitempty"`
	Retention float64           `json:"retention_seconds,omitempty"`
	Deadline  *time.Time        `json:"deadline,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Payload   json.RawMessage   `json:"payload,omitempty"`
	Base64    []byte            `json:"payload_base64,omitempty"` // of a payload that is no JSON
	Missing   int               `json:"payload_missing_bytes,omitempty"`
}

type deadAttempt struct {
	Number  int       `json:"number"`
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error"`
	Worker  string    `json:"worker,omitempty"`
}

func rowOf(t deadtasks.Task) deadRow {
	r := deadRow{
		ID: t.ID, Queue: t.Queue, Type: t.Type, State: t.State, At: t.At, Cause: t.Cause, Error: t.Error,
		Batch: t.Batch, Requeues: t.Requeues, Attempts: []deadAttempt{},
	}
	for _, a := range t.Attempts {
		r.Attempts = append(r.Attempts, deadAttempt{
			Number: a.Number, At: a.At, Seconds: a.Elapsed.Seconds(),
			Error: a.Error, Worker: a.Worker,
		})
	}
	return r
}

// wholeRowOf has all that the task is enqueued with again.
func wholeRowOf(t deadtasks.Task) deadRow {
	r := rowOf(t)
	retries := retriesOf(t)
	r.MaxRetry, r.Timeout, r.Retention = &retries, t.Timeout.Seconds(), t.Retention.Seconds()
	r.Headers, r.Missing = t.Headers, t.Missing
	if !t.Deadline.IsZero() {
		r.Deadline = &t.Deadline
	}
	if json.Valid(t.Payload) {
		r.Payload = t.Payload
	} else {
		r.Base64 = t.Payload
	}
	return r
}

// retriesOf is our count of retries, asynq's for a foreign task.
func retriesOf(t deadtasks.Task) int {
	return envelope.MaxRetry(asynq.NewTaskWithHeaders(t.Type, nil, t.Headers), t.MaxRetry)
}

func encoderTo(w io.Writer) *json.Encoder {
	e := cli.JSON(w)
	e.SetEscapeHTML(false) // payloads are read by people
	return e
}
