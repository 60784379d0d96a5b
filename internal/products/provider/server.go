package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// goneAfter is how long a call runs on after its client disconnects, if calls in flight are limited.
const goneAfter = 3 * time.Second

// Server is a provider. It is safe for concurrent use.
type Server struct {
	cfg     Config
	account *account
	mux     *http.ServeMux
	serial  atomic.Int64

	// Nil unless Start made the server.
	listener net.Listener
	http     *http.Server
	served   chan struct{}

	handlers sync.RWMutex // read-locked by each handler
	closing  chan struct{}
	end      func() // closes closing, once
}

// New returns a provider that does not listen: call its ServeHTTP. The error names every invalid field of the Config.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, account: newAccount(cfg), mux: http.NewServeMux(), closing: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.closing) })
	s.mux.HandleFunc("POST /v1/chat/completions", s.endpoint("chat", chatCall))
	s.mux.HandleFunc("POST /v1/responses", s.endpoint("response", responseCall))
	s.mux.HandleFunc("POST /v1/embeddings", s.endpoint("embeddings", embeddingsCall))
	s.mux.HandleFunc("POST /v1/completions", s.endpoint("completion", completionCall))
	s.mux.HandleFunc("POST /v1/moderations", s.endpoint("moderation", moderationCall))
	s.mux.HandleFunc("POST /v1/messages", s.endpoint("message", messageCall))
	s.mux.HandleFunc("POST /v1/tick", s.endpoint("tick", tickCall))
	s.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"test","object":"model"}]}`) // the client may have gone
	})
	s.mux.HandleFunc("GET /v1/models/{model}", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"id": r.PathValue("model"), "object": "model"})
	})
	s.mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Report())
	})
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "invalid_request_error", "unknown_url",
			fmt.Sprintf("Unknown request URL: %s %s.", r.Method, r.URL.Path))
	})
	return s, nil
}

// Start returns a provider that listens on loopback until Close.
func Start(cfg Config) (*Server, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	addr, err := net.ResolveTCPAddr("tcp", s.cfg.Addr)
	if err == nil {
		s.listener, err = net.ListenTCP("tcp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("provider: listen on %s: %w", s.cfg.Addr, err)
	}
	s.served = make(chan struct{})
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(s.listener) // Always ends with http.ErrServerClosed, in Close.
	}()
	return s, nil
}

// URL is the base URL for a client, e.g. http://127.0.0.1:41234/v1. It is empty if the provider does not listen.
func (s *Server) URL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String() + "/v1"
}

// Report returns the counts so far. It may be called at any time, even after Close.
func (s *Server) Report() Report { return s.account.report() }

// Close closes all connections, ends all calls and waits for their handlers. A client that still waits for its answer
// gets none. A second call does nothing.
func (s *Server) Close() error {
	s.end()
	var err error
	if s.http != nil {
		err = s.http.Close() // before the lock: a handler may read from a silent client
		<-s.served
	}
	s.handlers.Lock() // waits for the running handlers
	defer s.handlers.Unlock()
	return err
}

// ServeHTTP answers one request. All paths below /v1 need an Authorization header with any bearer token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.RLock()
	defer s.handlers.RUnlock()
	select {
	case <-s.closing:
		writeError(w, http.StatusServiceUnavailable, "server_error", "", "The server is closed.")
		return
	default:
	}
	w.Header().Set("X-Request-Id", fmt.Sprintf("req_%08d", s.serial.Add(1)))
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if own := r.Header.Get("X-Api-Key"); own != "" { // of Anthropic's clients
			key, ok = own, true
		}
		if !ok || strings.TrimSpace(key) == "" {
			writeError(w, http.StatusUnauthorized, "invalid_request_error", "invalid_api_key",
				"You didn't provide an API key in an Authorization header (Authorization: Bearer YOUR_KEY).")
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

// job is a valid request on its way through the meters.
type job struct {
	task      string
	tenant    string
	prompt    float64
	estimate  float64
	used      float64
	character character
	answer    json.RawMessage
	stream    string // instead of the answer, if it is not empty
}

// serve judges a request that arrived at now, waits for its latency and answers.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, now time.Time, j job) {
	if s.cfg.CountUsed {
		j.estimate = j.prompt
	}
	v := s.account.arrive(now, j)
	if v.call == nil {
		writeLimits(w, v.standing)
		writeRefusal(w, v)
		return
	}
	began := time.Now()
	finished := s.pause(r.Context(), j.character.latency)
	if rest := j.character.latency - time.Since(began); !finished && s.cfg.InFlight > 0 {
		s.pause(context.WithoutCancel(r.Context()), min(rest, goneAfter))
	}
	failed := v.call.fate != fine
	if failed {
		j.used = 0
	}
	// The usage is counted before the answer leaves, so that no client learns it earlier. A call of a disconnected
	// client counts too.
	left := s.account.finish(time.Now(), v.call, j.used, failed)
	if s.cfg.HeadersOnArrival {
		left = v.standing
	}
	if v.call.fate == dropped {
		panic(http.ErrAbortHandler) // closes the connection
	}
	writeLimits(w, left)
	switch {
	case !finished:
		writeError(w, http.StatusServiceUnavailable, "server_error", "",
			"The call was ended before its answer was ready.")
	case failed:
		writeError(w, http.StatusInternalServerError, "server_error", "",
			"The server had an error while processing your request.")
	case j.stream != "":
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for event := range strings.SplitAfterSeq(j.stream, "\n\n") {
			_, _ = io.WriteString(w, event) // an error means that the client has disconnected
			_ = http.NewResponseController(w).Flush()
		}
	default:
		writeJSON(w, http.StatusOK, j.answer)
	}
}

// pause returns whether the time passed before the context or the server ended.
func (s *Server) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-s.closing:
	}
	return false
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // An error means that the client has disconnected.
}
