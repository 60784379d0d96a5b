package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// watchersMost is how many streams of events are served at once.
	watchersMost = 64
	// eventEvery is how often a page is looked at for a stream, and pingEvery how often a stream is written to at least.
	eventEvery = 2 * time.Second
	pingEvery  = 15 * time.Second
)

// serveEvents sends the main part of the page ?at=ADDRESS as a server-sent event, now and whenever it has changed.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	at, err := url.ParseRequestURI(r.URL.Query().Get("at"))
	if err != nil || s.pages[at.Path] == nil || at.Host != "" {
		http.Error(w, "at must be the address of a page, such as /queues.", http.StatusBadRequest)
		return
	}
	select {
	case s.watchers <- struct{}{}:
		defer func() { <-s.watchers }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are live already.", watchersMost), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s.stream(w, r, at)
}

// stream writes events until the client goes away or the server stops.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, at *url.URL) {
	shown := r.Clone(r.Context())
	shown.URL = at
	control := http.NewResponseController(w)
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	var last []byte
	wrote := time.Time{}
	for {
		text, err := s.execute("live", s.view(shown))
		now := time.Now()
		var out []byte
		switch {
		case err == nil && !bytes.Equal(text, last):
			encoded, _ := json.Marshal(string(text)) // a text can be encoded
			out, last = fmt.Appendf(nil, "event: page\ndata: %s\n\n", encoded), text
		case now.Sub(wrote) >= pingEvery:
			out = []byte(": still here\n\n")
		}
		if out != nil {
			_ = control.SetWriteDeadline(now.Add(writeTimeout)) // a recorder in a test has none
			if _, err = w.Write(out); err == nil {
				err = control.Flush()
			}
			if err != nil {
				return
			}
			wrote = now
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}
