package gateway

import (
	"log/slog"
	"net/http"
	"time"
)

const (
	// headerPatience is how long a caller may take for the headers of a request, idlePatience how long a connection may
	// be idle between two requests. headerMost bounds the headers, in bytes.
	headerPatience = 10 * time.Second
	idlePatience   = 2 * time.Minute
	headerMost     = 64 << 10
)

// Server returns a server of the gateway that closes connections without a request: a new one after 10 s, one that had
// an answer after 2 minutes. Headers have 10 s to arrive, and at most 64 kB.
func (g *Gateway) Server() *http.Server {
	return &http.Server{
		Handler: g, ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: headerMost,
		ErrorLog: slog.NewLogLogger(g.config.Logger.Handler(), slog.LevelDebug),
	}
}
