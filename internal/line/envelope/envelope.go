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
	// HeaderUnchecked marks a task whose producer had no limits to check its charges with.
	HeaderUnchecked = "headway-unchecked"
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
// field. The error matches ErrInvalidOptions, ErrBadPayload, ErrTooManyCharges or
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
	if err := CheckType(args); err != nil {
		return fail(err)
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
	options.Queue = cmp.Or(options.Queue, QueueDefault)
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
	args, err := decode[T](t)
	if err != nil {
		var none T
		return none, unreadable(t, err)
	}
	return args, nil
}

func decode[T tasks.Args](t *asynq.Task) (T, error) {
	args, ok := blank[T]()
	if !ok {
		return args, fmt.Errorf("%w: %T is an interface", ErrWrongType, (*T)(nil))
	}
	if _, err := foreign(t); err != nil {
		return args, err
	}
	if want := args.TaskType(); want != t.Type() {
		return args, fmt.Errorf("%w: want %q", ErrWrongType, want)
	}
	if isNull(t.Payload()) {
		return args, fmt.Errorf("%w: null", tasks.ErrBadPayload)
	}
	if err := json.Unmarshal(t.Payload(), &args); err != nil {
		return args, fmt.Errorf("%w: %w", tasks.ErrBadPayload, err)
	}
	return args, nil
}

// Charges are what the task takes, as its headers say: none for a foreign task. The error is permanent:
// ErrUnknownVersion, ErrBadHeader, ErrTooManyCharges or reservations.ErrInvalidCharge.
func Charges(t *asynq.Task) ([]reservations.Charge, error) {
	charges, _, err := charged(t)
	return charges, unreadable(t, err)
}

// ChargesAs is Charges, but for a foreign task it is what the arguments T compute from the payload: a task that another
// program enqueued does not pass the limit unseen. Errors as for Charges and Decode.
func ChargesAs[T tasks.Args](t *asynq.Task) ([]reservations.Charge, error) {
	charges, alien, err := charged(t)
	if alien {
		var args T
		if args, err = decode[T](t); err == nil {
			charges, err = ChargesOf(args)
		}
	}
	return charges, unreadable(t, err)
}

// charged returns the charges in the headers of a task, and whether the task is foreign.
func charged(t *asynq.Task) (charges []reservations.Charge, alien bool, err error) {
	alien, err = foreign(t)
	text, ok := t.Headers()[HeaderCharges]
	if err == nil {
		err = misnamed(t)
	}
	if err != nil || !ok {
		return nil, alien, err
	}
	if err = json.Unmarshal([]byte(text), &charges); err != nil {
		err = fmt.Errorf("%w: %w", ErrBadHeader, err)
	} else if len(charges) == 0 {
		err = fmt.Errorf("%w: an empty list", ErrBadHeader)
	} else {
		err = CheckCharges(charges)
	}
	if err != nil {
		return nil, false, fmt.Errorf("header %s: %w", HeaderCharges, err)
	}
	return charges, false, nil
}

// Checked says whether a producer that knew the limits checked the charges of the task. A limit that got a meter since
// then still serves it.
func Checked(t *asynq.Task) bool {
	_, ours := t.Headers()[HeaderVersion]
	_, not := t.Headers()[HeaderUnchecked]
	return ours && !not
}

// misnamed refuses a header that is meant to be HeaderCharges, e.g. Headway-Charges: its task would be unlimited.
func misnamed(t *asynq.Task) error {
	for name := range t.Headers() {
		if name != HeaderCharges && strings.HasPrefix(strings.ToLower(name), strings.TrimSuffix(HeaderCharges, "s")) {
			return fmt.Errorf("header %.64q: %w: the charges of a task are in header %s", name, ErrBadHeader,
				HeaderCharges)
		}
	}
	return nil
}

// MaxRetry returns how often a task is retried after its first failure, where asynq's own count is asynqs: Slack less
// for a task of Headway, never below zero, and the same for a foreign task.
func MaxRetry(t *asynq.Task, asynqs int) int {
	if alien, err := foreign(t); err != nil || alien {
		return asynqs
	}
	return max(0, asynqs-Slack)
}

// unreadable is the reason why this program can't run a task. It is permanent. Nil stays nil.
func unreadable(t *asynq.Task, err error) error {
	if err == nil {
		return nil
	}
	return tasks.Permanent(fmt.Errorf("decode task %q: %w", t.Type(), err))
}

// foreign says whether another program than Headway encoded the task.
func foreign(t *asynq.Task) (bool, error) {
	version, ok := t.Headers()[HeaderVersion]
	_, charged := t.Headers()[HeaderCharges]
	switch {
	case ok && version != strconv.Itoa(Version):
		return false, fmt.Errorf("header %s: %w %.20q, this is %d", HeaderVersion, ErrUnknownVersion, version, Version)
	case !ok && charged:
		return false, fmt.Errorf("header %s: %w: missing beside %s", HeaderVersion, ErrUnknownVersion, HeaderCharges)
	}
	return !ok, nil
}

func isNull(text []byte) bool { return bytes.Equal(bytes.TrimSpace(text), []byte("null")) }
