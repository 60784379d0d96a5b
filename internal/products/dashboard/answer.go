package dashboard

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/headway-go/headway/internal/api/openai"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/text/batchref"
)

// answerView is the stored result of a request of a batch.
type answerView struct {
	// Text is what the model wrote, Body the whole answer.
	Text, Body string
	Rows       [][]string
}

// answer adds the result of a request of a batch to what is known of its task. The result outlives the task, and is
// shown without it too. It is only that of the round that the task belongs to.
func (s *Server) answer(ctx context.Context, found []taskView, queue, id string) ([]taskView, error) {
	ref, is := batchref.Parse(id)
	if !is || s.config.Batches == nil {
		return found, nil
	}
	r, ended, err := s.config.Batches.Find(ctx, ref.Batch, ref.Line)
	if err != nil || !ended || r.Round != ref.Round {
		return found, err
	}
	if len(found) == 0 {
		b, err := s.config.Batches.Batch(ctx, ref.Batch)
		if errors.Is(err, batches.ErrUnknownBatch) || err == nil && queue != "" && b.Queue != queue {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		how := "was answered"
		if r.Failed() {
			how = "has failed: " + firstLine(r.Fault())
		}
		found = []taskView{{
			ID: id, Queue: b.Queue, Batch: b.ID, Payload: s.body(r.Request),
			Summary: fmt.Sprintf("Task %s is done: request %q of its batch %s.", id, r.CustomID, how),
		}}
	}
	for i := range found {
		if found[i].Batch == ref.Batch {
			found[i].Answer = s.newAnswer(r)
		}
	}
	return found, nil
}

func (s *Server) newAnswer(r batches.Result) *answerView {
	v := answerView{Rows: [][]string{{"request", r.CustomID}, {"ended", clock(r.Finished)}}}
	row := func(name, value string) {
		if value != "" {
			v.Rows = append(v.Rows, []string{name, value})
		}
	}
	row("model", r.Model)
	if a := r.Response; a != nil {
		v.Text, v.Body = s.body([]byte(openai.Written(a.Body))), s.body(a.Body)
		row("status", strconv.Itoa(a.StatusCode))
		row("provider's ID", a.RequestID)
	}
	for _, u := range []struct {
		name   string
		tokens float64
	}{
		{"tokens reserved", r.Usage.Reserved},
		{"tokens used", r.Usage.Used},
		{"prompt tokens", r.Usage.Prompt},
		{"completion tokens", r.Usage.Completion},
	} {
		if u.tokens > 0 {
			row(u.name, number(u.tokens))
		}
	}
	if r.Failed() {
		row("error", r.Fault())
	}
	for _, a := range r.Attempts {
		row("failed attempt", clock(a.At)+": "+a.Error)
	}
	return &v
}
