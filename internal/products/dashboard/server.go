package dashboard

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/internal/documents/batches"
)

//go:embed assets
var assets embed.FS

// Server serves the page of one fleet.
type Server struct {
	config    Config
	inspector *asynq.Inspector
	history   *history
	handler   http.Handler
	pages     map[string]page
	logins    *logins
	watchers  chan struct{} // a place for each stream of events
	counters  bounded.Map[string, *batches.Counter]

	looking chan struct{} // holds one: one look at a time; guards what is below
	last    fleet
	slow    fleet // with what MongoDB counted
}

// New returns a server of pages. It sends nothing. The error matches ErrCredentials.
func New(c Config) (*Server, error) {
	if err := c.Credentials.Validate(); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	s := &Server{
		config: c, inspector: asynq.NewInspectorFromRedisClient(c.Client), history: newHistory(c.Client),
		looking:  make(chan struct{}, 1),
		logins:   newLogins(),
		watchers: make(chan struct{}, watchersMost),
		counters: bounded.Map[string, *batches.Counter]{Most: batchesShown + watchersMost},
	}
	s.pages = map[string]page{
		"/": s.overviewPage, "/limit": s.limitPage, "/task": s.taskPage, "/batches": s.batchesPage,
		"/batch": s.batchPage, "/dead": s.deadPage, "/queues": s.queuesPage, "/queue": s.queuePage,
	}
	mux := http.NewServeMux()
	for path := range s.pages {
		pattern := "GET " + path
		if path == "/" {
			pattern = "GET /{$}"
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, s.view(r)) })
	}
	mux.HandleFunc("GET /events", s.serveEvents)
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	for path, do := range s.changes() {
		mux.Handle("POST "+path, s.change(do))
	}
	s.handler = s.guard(mux)
	return s, nil
}

// Handler returns the page with all its checks. Links of the page are relative, so it may be served below a path that
// ends in a slash, and that http.StripPrefix takes away.
func (s *Server) Handler() http.Handler { return s.handler }

const (
	stopPatience = 3 * time.Second
	writeTimeout = 15 * time.Second
)

// Run serves on the listener and records the history, until ctx ends. It closes the listener.
func (s *Server) Run(ctx context.Context, on net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: writeTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // so that streams of events end
	}
	var group sync.WaitGroup
	group.Go(func() { s.Record(ctx) })
	group.Go(func() {
		<-ctx.Done()
		stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer done()
		if server.Shutdown(stop) != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(on)
	cancel()
	group.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
