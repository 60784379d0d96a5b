package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/api/openai"
)

const (
	// writePatience is how long one write to a caller may take.
	writePatience = 30 * time.Second
	// chunkEvery is how often a waiting stream has an empty chunk, for readers that give up without one for 120 s.
	chunkEvery = 100 * time.Second
)

// hold keeps the connection of a waiting caller alive. First it is silent, so that the answer can have a status of its
// own. Then the response opens, and something without meaning goes out now and then. All writes of the response go
// through it.
type hold struct {
	w       http.ResponseWriter
	control *http.ResponseController
	call    *call
	watch   *watch
	every   time.Duration
	give    func(error) // ends the wait

	turn  chan struct{} // holds one: the turn to write, and to use what is below
	began time.Time
	timer *time.Timer // nil if the response never opens by itself
	// opened says that the status went out, ended that nothing without meaning goes out any more.
	opened, ended bool
	started       bool // the call has started
	chunk         time.Time
}

func newHold(w http.ResponseWriter, c *call, watch *watch, every time.Duration, give func(error)) *hold {
	h := &hold{
		w: w, control: http.NewResponseController(w), call: c, watch: watch, every: every, give: give,
		turn: make(chan struct{}, 1), began: time.Now(),
	}
	h.chunk = h.began
	if c.holds() {
		h.timer = time.AfterFunc(every, h.beat)
	}
	h.turn <- struct{}{}
	return h
}

// beat sends a sign of life.
func (h *hold) beat() {
	at := h.watch.look(context.Background())
	h.watch.keep(context.Background())
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	if h.ended {
		return
	}
	now := time.Now()
	if !h.opened {
		h.opened = true
		header := h.w.Header()
		header.Set("Content-Type", "application/json")
		if h.call.stream {
			header.Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no") // nginx passes it on at once
		at.show(header, now)
		h.w.WriteHeader(http.StatusOK)
	}
	text := " "
	if h.call.stream {
		text = ": " + at.text(now) + "\n\n"
		if h.started {
			text = ": started\n\n"
		}
		if now.Sub(h.chunk) >= chunkEvery-h.every/2 {
			h.chunk = now
			text += h.call.emptyChunk(now)
		}
	}
	if err := h.write([]byte(text)); err != nil {
		h.give(err)
		return
	}
	h.timer.Reset(h.every)
}

// write writes and flushes.
func (h *hold) write(text []byte) error {
	h.allow()
	if _, err := h.w.Write(text); err != nil {
		return err
	}
	return h.control.Flush()
}

// allow gives the next writes their time. A recorder in a test has no deadlines.
func (h *hold) allow() { _ = h.control.SetWriteDeadline(time.Now().Add(writePatience)) }

// granted says that the call has started. A response that has not opened stays silent from now on.
func (h *hold) granted() {
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	h.started, h.ended = true, !h.opened
}

// again says that the call waits once more.
func (h *hold) again() {
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	h.started = false
	if h.ended && h.timer != nil {
		h.ended = false
		h.timer.Reset(max(time.Second, time.Until(h.began.Add(h.every))))
	}
}

// end ends the signs of life, and says whether the status went out.
func (h *hold) end() (opened bool) {
	<-h.turn
	defer func() { h.turn <- struct{}{} }()
	h.ended = true
	if h.timer != nil {
		h.timer.Stop()
	}
	return h.opened
}

// fail ends the response with an error.
func (h *hold) fail(f fault) {
	if !h.end() {
		_, _, at := h.watch.waited()
		at.show(h.w.Header(), time.Now())
		writeFault(h.w, h.call.family, f)
		return
	}
	h.failOpen(f.body(h.call.family))
}

// failOpen ends a response whose status went out. A stream ends with an event. A JSON answer breaks off, so that no
// client takes the error for an answer.
func (h *hold) failOpen(body []byte) {
	if h.call.stream {
		_ = h.write(errorEvent(h.call.family, body)) // an error means that the caller has gone
		return
	}
	_ = h.write(body) // as above
	panic(http.ErrAbortHandler)
}

// errorEvent is an error in a stream.
func errorEvent(of family, body []byte) []byte {
	if of == familyAnthropic {
		return fmt.Appendf(nil, "event: error\ndata: %s\n\n", body)
	}
	return fmt.Appendf(nil, "data: %s\n\n", body)
}

// text says how a caller stands.
func (s standing) text(now time.Time) string {
	wait := max(0, s.start.Sub(now)).Round(time.Second)
	switch {
	case s.number > 0:
		return fmt.Sprintf("waiting, number %d, about %s", s.number, wait)
	case wait > 0:
		return fmt.Sprintf("waiting, about %s", wait)
	}
	return "waiting"
}

// show sets the headers that say how a caller stands.
func (s standing) show(h http.Header, now time.Time) {
	if s.number > 0 {
		h.Set("Headway-Position", strconv.Itoa(s.number))
	}
	if !s.start.IsZero() {
		h.Set("Headway-Wait", strconv.FormatFloat(max(0, s.start.Sub(now)).Seconds(), 'f', 1, 64))
	}
}

// emptyChunk is an event that has no meaning to the clients of the endpoint.
func (c *call) emptyChunk(now time.Time) string {
	model, _ := json.Marshal(c.model) // a text has no fault
	switch c.endpoint {
	case openai.Chat:
		return fmt.Sprintf(`data: {"id":"headway","object":"chat.completion.chunk","created":%d,"model":%s,`+
			`"choices":[{"index":0,"delta":{},"finish_reason":null}]}`+"\n\n", now.Unix(), model)
	case openai.Completions:
		return fmt.Sprintf(`data: {"id":"headway","object":"text_completion","created":%d,"model":%s,`+
			`"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null}]}`+"\n\n", now.Unix(), model)
	case openai.Messages:
		return "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	}
	return ""
}
