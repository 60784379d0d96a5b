package dashboard

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/reservations"
)

//go:embed pages/*.html
var pagesFS embed.FS

// page looks at the fleet for one request. Its error becomes a page of its own.
type page func(r *http.Request) (view, error)

// view is what a template shows.
type view struct {
	Name  string // of the template
	Title string
	Nav   string // the entry of the menu that is current
	Data  any

	// Set by render.
	Status       int
	At           time.Time
	Live         string // the address of the page, for its events; empty if it stays as it is
	AllowChanges bool
	Stuck        int // problems that are not mere news
	Notice       string
}

// notFound is an error of an address that names nothing.
type notFoundError struct{ what string }

func (e *notFoundError) Error() string { return e.what }

var pageTemplates = parsePages() //nolint:gochecknoglobals // parsed once, never changed

func parsePages() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"number": func(n int) string { return number(float64(n)) }, "amount": number, "count": count,
		"seconds": seconds, "duration": duration, "clock": clock, "ago": ago,
		"join":     func(texts []string) string { return strings.Join(texts, ", ") },
		"taskLink": taskLink, "firstLine": firstLine,
		"stopping": state.Stopping, "names": func(m map[string]int) []string { return slices.Sorted(maps.Keys(m)) },
		"share":   func(part, whole int) float64 { return percent(float64(part), float64(whole)) },
		"command": shell.Command, "spans": spans,
		"add": func(a, b int) int { return a + b },
		"menu": func() [][2]string {
			return [][2]string{
				{"/", "Overview"},
				{"/limit", "Limits"},
				{"/task", "Tasks"},
				{"/batches", "Batches"},
				{"/dead", "Dead"},
				{"/queues", "Queues"},
			}
		},
		"tasksOf":    func(limit, flow string) string { return taskSearch{Limit: limit, Flow: flow}.link() },
		"taskStates": func() []string { return taskStates },
		"reasons":    reasons,
		"sinces": func() [][2]string {
			return [][2]string{{"", "ever"}, {"1h", "1 hour ago"}, {"24h", "1 day ago"}, {"168h", "7 days ago"}}
		},
	}).ParseFS(pagesFS, "pages/layout.html", "pages/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range []string{
		"overview", "limit", "task", "batches", "batch", "dead", "queues", "queue", "error",
	} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(pagesFS, "pages/"+name+".html"))
	}
	return all
}

// show answers with a whole page.
func (s *Server) show(w http.ResponseWriter, r *http.Request, v view) {
	text, err := s.execute("layout.html", v)
	if err != nil {
		s.config.Logger.ErrorContext(r.Context(), "page can't be shown",
			slog.String("path", r.URL.Path), slog.Any("error", err))
		http.Error(w, "This page can't be shown; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(v.Status)
	_, _ = w.Write(text) //nolint:gosec // html/template escapes; an error means that the client went away
}

// view looks at the fleet for a request of a page.
func (s *Server) view(r *http.Request) view {
	v, err := s.pages[r.URL.Path](r)
	v.Status = http.StatusOK
	if err != nil {
		v = errorView("Not shown", err)
	}
	f := s.look(r.Context())
	for _, p := range state.Problems(f.Snapshot) {
		if p.Severity != state.News {
			v.Stuck++
		}
	}
	v.At, v.AllowChanges, v.Live = time.Now(), s.config.AllowChanges, liveAddress(r.URL)
	v.Notice = noticeOf(r.URL.Query())
	return v
}

// errorView is the page of an error.
func errorView(title string, err error) view {
	return view{Name: "error", Title: title, Data: err.Error(), Status: status(err)}
}

// liveAddress is the address of a page without the notice of the last change.
func liveAddress(u *url.URL) string {
	q := u.Query()
	q.Del("done")
	q.Del("n")
	if len(q) == 0 {
		return u.Path
	}
	return u.Path + "?" + q.Encode()
}

// status is that of a page that could not be shown.
func status(err error) int {
	unknown, invalid := (*notFoundError)(nil), (*invalidError)(nil)
	switch {
	case errors.As(err, &invalid):
		return http.StatusUnprocessableEntity
	case errors.As(err, &unknown), errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound),
		errors.Is(err, batches.ErrUnknownBatch), errors.Is(err, state.ErrNoQueue),
		errors.Is(err, reservations.ErrUnknownLimit), errors.Is(err, reservations.ErrInvalidCharge):
		return http.StatusNotFound
	default:
		return http.StatusServiceUnavailable
	}
}

// execute renders a template and filters the result: no character that a browser obeys instead of shows, and no secret.
func (s *Server) execute(name string, v view) ([]byte, error) {
	t := pageTemplates[v.Name]
	if t == nil {
		return nil, fmt.Errorf("dashboard: no page %q", v.Name)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, v); err != nil {
		return nil, err
	}
	return s.config.Secrets.Bytes([]byte(cli.Printable(b.String()))), nil
}

// taskLink is the page of a task.
func taskLink(queue, id string) string {
	return "task?" + url.Values{"queue": {queue}, "id": {id}}.Encode()
}
