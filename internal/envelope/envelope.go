// Package envelope makes asynq tasks of arguments and reads them: payload, headers and options. It does no I/O.
package envelope

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// The headers that Headway adds to an asynq task. Headers can't change once the task is sent.
const (
	// HeaderVersion holds Version. A task without it is foreign: Headway did not encode it.
	HeaderVersion = "headway-version"
	// HeaderCharges holds the charges as a JSON list. It is left out where there are none.
	HeaderCharges = "headway-charges"
)

// Version is that of the headers. It grows when a worker of the version before could not run the task rightly.
const Version = 1

// Envelope is a task that is ready to be sent.
type Envelope struct {
	// Task has the type, the payload and the headers. It carries no options: send it with the options of Asynq.
	Task *asynq.Task
	// Charges are the charges in the headers.
	Charges []reservations.Charge
	// Options are the options in force; Queue is always set.
	Options tasks.Options
}

// Encode makes a task of args. The options come from args, if it is an Optioner, and then from each of over, field by
// field. The error matches ErrInvalidOptions, ErrBadPayload, ErrTooManyCharges, ErrDuplicateCharge or
// reservations.ErrInvalidCharge.
func Encode(args tasks.Args, over ...tasks.Options) (Envelope, error) {
	var name string
	fail := func(err error) (Envelope, error) { return Envelope{}, fmt.Errorf("encode task %q: %w", name, err) }
	if isNil(args) {
		return fail(fmt.Errorf("%w: no arguments", tasks.ErrBadPayload))
	}
	name = args.TaskType()
	if strings.TrimSpace(name) == "" {
		return fail(fmt.Errorf("%w: TaskType of %T is empty", tasks.ErrBadPayload, args))
	}
	options := optionsOf(args, over)
	if err := Validate(options); err != nil {
		return fail(fmt.Errorf("%w: %w", tasks.ErrInvalidOptions, err))
	}
	charges, err := ChargesOf(args)
	if err != nil {
		return fail(err)
	}
	payload, err := marshal(args)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", tasks.ErrBadPayload, err))
	}
	headers := map[string]string{HeaderVersion: strconv.Itoa(Version)}
	writeTimes(headers, options)
	if len(charges) > 0 {
		text, err := marshal(charges)
		if err != nil {
			return fail(fmt.Errorf("charges: %w", err))
		}
		headers[HeaderCharges] = string(text)
	}
	return Envelope{Task: asynq.NewTaskWithHeaders(name, payload, headers), Charges: charges, Options: options}, nil
}

func optionsOf(args tasks.Args, over []tasks.Options) tasks.Options {
	var options tasks.Options
	if optioner, ok := args.(tasks.Optioner); ok {
		options = optioner.TaskOptions()
	}
	for _, o := range over {
		options = Merge(options, o)
	}
	options.Queue = cmp.Or(options.Queue, tasks.QueueDefault)
	return options
}

// marshal leaves '<' and the like as they are: payloads are read by people.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if isNull(text) {
		return nil, fmt.Errorf("%T encodes as null", v)
	}
	return text, nil
}

// Decode returns the arguments of a task. A foreign task is decoded as well. JSON fields that T does not have are
// ignored. The error is permanent: ErrUnknownVersion, ErrWrongType or ErrBadPayload.
func Decode[T tasks.Args](t *asynq.Task) (T, error) {
	args, ok := blank[T]()
	fail := func(err error) (T, error) {
		var none T
		return none, unreadable(t, "", err)
	}
	if !ok {
		return fail(fmt.Errorf("%w: %T is an interface", tasks.ErrWrongType, (*T)(nil)))
	}
	if _, err := foreign(t); err != nil {
		var none T
		return none, err
	}
	if want := args.TaskType(); want != t.Type() {
		return fail(fmt.Errorf("%w: want %q", tasks.ErrWrongType, want))
	}
	if isNull(t.Payload()) {
		return fail(fmt.Errorf("%w: null", tasks.ErrBadPayload))
	}
	if err := json.Unmarshal(t.Payload(), &args); err != nil {
		return fail(fmt.Errorf("%w: %w", tasks.ErrBadPayload, err))
	}
	return args, nil
}

// Charges are what the task takes, as its headers say: none for a foreign task. The error is permanent:
// ErrUnknownVersion, ErrBadHeader, ErrTooManyCharges, ErrDuplicateCharge or reservations.ErrInvalidCharge.
func Charges(t *asynq.Task) ([]reservations.Charge, error) {
	alien, err := foreign(t)
	if err != nil || alien {
		return nil, err
	}
	text, ok := t.Headers()[HeaderCharges]
	if !ok {
		return nil, nil
	}
	fail := func(err error) ([]reservations.Charge, error) {
		return nil, unreadable(t, HeaderCharges, err)
	}
	var charges []reservations.Charge
	if err := json.Unmarshal([]byte(text), &charges); err != nil {
		return fail(fmt.Errorf("%w: %w", tasks.ErrBadHeader, err))
	}
	if len(charges) == 0 {
		return fail(fmt.Errorf("%w: an empty list", tasks.ErrBadHeader))
	}
	if err := CheckCharges(charges); err != nil {
		return fail(err)
	}
	return charges, nil
}

// ChargesAs is Charges, but for a foreign task it is what the arguments T compute from the payload: a task that another
// program enqueued does not pass the limit unseen. Errors as for Charges and Decode.
func ChargesAs[T tasks.Args](t *asynq.Task) ([]reservations.Charge, error) {
	alien, err := foreign(t)
	if err != nil {
		return nil, err
	}
	if !alien {
		return Charges(t)
	}
	args, err := Decode[T](t)
	if err != nil {
		return nil, err
	}
	charges, err := ChargesOf(args)
	if err != nil {
		return nil, unreadable(t, "", err)
	}
	return charges, nil
}

// MaxRetry returns how often a task is retried after its first failure, where asynq's own count is asynqs: Slack less
// for a task of Headway, never below zero, and the same for a foreign task.
func MaxRetry(t *asynq.Task, asynqs int) int {
	if alien, err := foreign(t); err != nil || alien {
		return asynqs
	}
	return max(0, asynqs-Slack)
}

// unreadable is the reason why this program can't run a task. It is permanent. The header is the malformed one; empty
// if the payload or the type is at fault.
func unreadable(t *asynq.Task, header string, err error) error {
	if header != "" {
		err = fmt.Errorf("header %s: %w", header, err)
	}
	return tasks.Permanent(fmt.Errorf("decode task %q: %w", t.Type(), err))
}

// foreign says whether another program than Headway encoded the task. The error is permanent.
func foreign(t *asynq.Task) (bool, error) {
	version, ok := t.Headers()[HeaderVersion]
	if ok && version == strconv.Itoa(Version) {
		return false, nil
	}
	if ok {
		err := fmt.Errorf("%w %.20q, this is %d", tasks.ErrUnknownVersion, version, Version)
		return false, unreadable(t, HeaderVersion, err)
	}
	if _, charged := t.Headers()[HeaderCharges]; charged {
		err := fmt.Errorf("%w: missing beside %s", tasks.ErrUnknownVersion, HeaderCharges)
		return false, unreadable(t, HeaderVersion, err)
	}
	return true, nil
}

func isNull(text []byte) bool { return bytes.Equal(bytes.TrimSpace(text), []byte("null")) }
