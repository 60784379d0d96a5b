package asynqdb

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of TaskMessage in asynq's protocol buffers.
const (
	messageType     = 1
	messagePayload  = 2
	messageDeadline = 9  // seconds
	messageFailedAt = 11 // seconds
	messageHeaders  = 15 // a map: each entry is a message with a key and a value
	headerKey       = 1
	headerValue     = 2
)

// HeaderStartBy is the header of the time by which a task has to start, which a worker reads: milliseconds since 1970.
const HeaderStartBy = "headway-start-by"

var errMessage = errors.New("not a message of asynq")

// DecodeMessage returns the task of asynq's message: its type, payload and headers. The payload shares memory with the
// message.
func DecodeMessage(message []byte) (*asynq.Task, error) {
	var name string
	var payload []byte
	headers := map[string]string{}
	err := eachField(message, func(field int, value []byte, _ uint64) error {
		switch field {
		case messageType:
			name = string(value)
		case messagePayload:
			payload = value
		case messageHeaders:
			key, value, err := decodeHeader(value)
			if err != nil {
				return err
			}
			headers[key] = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return asynq.NewTaskWithHeaders(name, payload, headers), nil
}

func decodeHeader(entry []byte) (key, value string, err error) {
	err = eachField(entry, func(field int, text []byte, _ uint64) error {
		switch field {
		case headerKey:
			key = string(text)
		case headerValue:
			value = string(text)
		}
		return nil
	})
	return key, value, err
}

// expiring returns the message of a task that has waited. If its deadline has passed, that becomes the time by which
// the task must have started. Asynq would fail such a task without asking its handler, and try it again later, as
// often as it has retries. Another message, and one that is unreadable, is returned as it is.
func expiring(message string, now time.Time) string {
	var deadline uint64
	err := eachField([]byte(message), func(field int, _ []byte, number uint64) error {
		if field == messageDeadline {
			deadline = number
		}
		return nil
	})
	if err != nil || deadline == 0 || now.Unix() < int64(min(deadline, math.MaxInt64)) {
		return message
	}
	header := protowire.AppendTag(nil, headerKey, protowire.BytesType)
	header = protowire.AppendString(header, HeaderStartBy)
	header = protowire.AppendTag(header, headerValue, protowire.BytesType)
	header = protowire.AppendString(header, strconv.FormatUint(deadline*uint64(time.Second/time.Millisecond), 10))
	// Of a field that is there twice, the last one counts.
	rest := protowire.AppendTag([]byte(message), messageDeadline, protowire.VarintType)
	rest = protowire.AppendVarint(rest, 0)
	rest = protowire.AppendTag(rest, messageHeaders, protowire.BytesType)
	return string(protowire.AppendBytes(rest, header))
}

// failedAt returns the second in which the task of the message failed or was deferred last. Zero means never, or that
// the message is unreadable.
func failedAt(message []byte) (second uint64) {
	err := eachField(message, func(field int, _ []byte, number uint64) error {
		if field == messageFailedAt {
			second = number
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return second
}

// eachField calls f for each field of a message: with its bytes, or with its number. A field of another kind has
// neither.
func eachField(message []byte, f func(field int, value []byte, number uint64) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMessage
		}
		message = message[n:]
		var value []byte
		var number uint64
		switch kind { //nolint:exhaustive // the others are skipped
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return errMessage
		}
		if err := f(int(field), value, number); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
