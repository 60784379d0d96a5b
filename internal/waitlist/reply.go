package waitlist

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// reply reads the texts of a script's answer in order. It keeps the first error: that of the script, or of a text.
type reply struct {
	operation string
	texts     []string
	err       error
}

var errShort = errors.New("the script's answer is too short")

func (r *reply) failed(err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", r.operation, err)
	}
}

func (r *reply) text() string {
	if len(r.texts) == 0 {
		r.failed(errShort)
		return ""
	}
	text := r.texts[0]
	r.texts = r.texts[1:]
	return text
}

func (r *reply) flag() bool { return r.text() == "1" }

func (r *reply) int() int64 {
	n, err := strconv.ParseInt(r.text(), 10, 64)
	r.failed(err)
	return n
}

func (r *reply) count() int { return int(r.int()) }

func (r *reply) float() float64 {
	f, err := strconv.ParseFloat(r.text(), 64)
	r.failed(err)
	return f
}

func (r *reply) duration() time.Duration { return time.Duration(r.int()) * time.Microsecond }

// moment reads a time. 0 is the zero time.
func (r *reply) moment() time.Time {
	us := r.int()
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func (r *reply) task() Task {
	t, err := ParseTask(r.text())
	r.failed(err)
	return t
}

// tokens reads a JSON object. It is empty where that can't be read: the dispatcher promotes the task, whose headers say
// what it takes.
func (r *reply) tokens() (tokens map[string]float64) {
	if json.Unmarshal([]byte(r.text()), &tokens) != nil {
		return nil
	}
	return tokens
}

// sums reads the number of meters, then the name and tokens of each. It skips malformed sums.
func (r *reply) sums() map[string]float64 {
	sums := map[string]float64{}
	for range r.count() {
		meter := r.text()
		if n, err := strconv.ParseFloat(r.text(), 64); err == nil {
			sums[meter] = n
		}
	}
	return sums
}
