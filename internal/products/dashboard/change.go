package dashboard

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// formMost bounds the body of a change, in bytes.
const formMost = 64 << 10

// changes are what the page can change, by the path of the form.
func (s *Server) changes() map[string]func(*http.Request) (page string, err error) {
	return map[string]func(*http.Request) (string, error){
		"/pause": s.pause, "/resume": s.resume, "/requeue": s.requeue, "/delete": s.delete, "/unblock": s.unblock,
		"/reset": s.reset, "/set": s.setRate, "/unset": s.unset, "/cancel": s.cancelBatch, "/retry": s.retryBatch,
	}
}

// invalidError is an error of what a reader has typed.
type invalidError struct{ error }

// change serves a request that changes something: only with AllowChanges. Requests of other sites do not get here.
// After the change the browser is sent to a page, so that a reload repeats nothing.
func (s *Server) change(do func(*http.Request) (page string, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.config.AllowChanges {
			http.Error(w, "This page is read-only: start it with --allow-changes to change something.",
				http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, formMost)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "The form can't be read.", http.StatusBadRequest)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a requeue of many tasks takes minutes
		to, err := do(r)
		user, _, _ := r.BasicAuth()
		said := []slog.Attr{
			slog.String("path", r.URL.Path), slog.String("by", user),
		}
		for _, name := range []string{"queue", "id", "all", "limit", "key", "meter", "rate", "capacity", "batch"} {
			if value := r.PostFormValue(name); value != "" {
				said = append(said, slog.String(name, value))
			}
		}
		if err != nil {
			said = append(said, slog.Any("error", err))
		}
		s.config.Logger.LogAttrs(r.Context(), slog.LevelInfo, "the page was asked for a change", said...)
		s.forget()
		if err != nil {
			v := errorView("Not done", err)
			v.At, v.AllowChanges = time.Now(), true
			s.show(w, r, v)
			return
		}
		w.Header().Set("Location", to) // relative: http.Redirect would add a path that a prefix was taken from
		w.WriteHeader(http.StatusSeeOther)
	})
}

// forget clears the cached state: the next look reads everything again.
func (s *Server) forget() {
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	s.last.At, s.slow.At = time.Time{}, time.Time{}
}

// back is a page with a notice of what was done, by a word and a number: no text of an address is shown.
func back(page, done string, n int) string {
	at, err := url.Parse(page)
	if err != nil {
		return "./"
	}
	q := at.Query()
	q.Set("done", done)
	q.Set("n", strconv.Itoa(n))
	return at.Path + "?" + q.Encode()
}

// noticeOf is the text of a notice; empty without one.
func noticeOf(q url.Values) string {
	n, _ := strconv.Atoi(q.Get("n"))
	switch q.Get("done") {
	case "paused":
		return "The queue is paused. Tasks that run go on."
	case "resumed":
		return "The queue is resumed."
	case "requeued":
		return count(n, "task") + " requeued."
	case "deleted":
		return count(n, "task") + " deleted."
	case "kept":
		return "No task was deleted: it runs, has ended, or is not there."
	case "unblocked":
		return "The limit is not blocked any more."
	case "reset":
		return "The bucket is full again."
	case "set":
		return "The rate is set. The fleet follows within 2 seconds."
	case "unset":
		return "The rate is unset. The fleet follows within 2 seconds."
	case "cancelled":
		return "The batch is cancelled: " + count(n, "request") + " deleted."
	case "retried":
		return count(n, "failed request") + " sent again."
	case "left":
		return "No task was requeued: it is in the queue again already, runs, or is a request of a batch."
	default:
		return ""
	}
}
