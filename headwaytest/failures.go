package headwaytest

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/worker"
)

// Failure is an error of tasks or producers, by its text.
type Failure struct {
	Text  string
	Count int
	// Last is when it came last, since the fleet began, By the worker or the producer.
	Last time.Duration
	By   string
}

// textsKept is the most different texts that are counted, textMost the largest length of one.
const (
	textsKept = 100
	textMost  = 500
	// otherTexts counts the errors after the first different ones.
	otherTexts = "other errors"
)

// failures counts errors by their texts.
type failures struct {
	mu     sync.Mutex // guards byText
	byText map[string]*counted
}

type counted struct {
	Failure

	at time.Time
}

// add counts an error.
func (fs *failures) add(err error, by string) {
	if err == nil {
		return
	}
	text := err.Error()
	text = text[:min(len(text), textMost)]
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byText == nil {
		fs.byText = map[string]*counted{}
	}
	if fs.byText[text] == nil && len(fs.byText) >= textsKept {
		text = otherTexts
	}
	c := fs.byText[text]
	if c == nil {
		c = &counted{Failure: Failure{Text: text}}
		fs.byText[text] = c
	}
	c.Count++
	c.at, c.By = time.Now(), by
}

// causeOf returns why a task waits, in place of an error that says until when. A task that only waits for its limit has
// no error. A refusal is counted at the end of the call alone.
func causeOf(e worker.Event) error {
	d, ok := errors.AsType[*dispatcher.DeferredError](e.Err)
	switch {
	case !ok:
		return e.Err
	case d.Missing != "":
		return errors.New(d.Missing)
	case e.Kind == worker.KindDeferred:
		return d.Cause
	default:
		return cmp.Or(d.Cause, d.Refusal)
	}
}

// list returns the errors, the last ones first.
func (fs *failures) list(began time.Time) []Failure {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all []Failure
	for _, c := range fs.byText {
		c.Last = c.at.Sub(began)
		all = append(all, c.Failure)
	}
	slices.SortFunc(all, func(a, b Failure) int {
		if a.Last != b.Last {
			return int(b.Last - a.Last)
		}
		return b.Count - a.Count
	})
	return all
}
