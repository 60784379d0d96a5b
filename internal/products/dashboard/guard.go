package dashboard

import (
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/text/loopback"
)

// policy allows the page its own style sheet, script, images and events, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard wraps the pages: headers, the name of the host, requests from other sites, credentials, then changes that other
// sites ask for.
func (s *Server) guard(pages http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "This request comes from another site.", http.StatusForbidden)
	}))
	pages = sameSite.Handler(pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		switch {
		case !s.config.AnyHost && !loopback.Host(r.Host):
			http.Error(w, "This page answers on loopback only: open it as 127.0.0.1 or localhost.",
				http.StatusMisdirectedRequest)
		case embedded(r):
			http.Error(w, "This request comes from another site.", http.StatusForbidden)
		case s.blocked(w, r):
			http.Error(w, "Too many wrong logins came from this address.", http.StatusTooManyRequests)
		case !s.config.Credentials.allow(r):
			s.refused(r)
			if s.config.Credentials.Password != "" {
				w.Header().Set("WWW-Authenticate", `Basic realm="Headway", charset="UTF-8"`)
			}
			http.Error(w, "This page needs credentials.", http.StatusUnauthorized)
		default:
			pages.ServeHTTP(w, r)
		}
	})
}

// embedded says whether a page of another site makes the request, unless its reader follows a link. Such a page can't
// read the answer, but it could hold all streams of events and have the services searched.
func embedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return (site == "cross-site" || site == "same-site") && !link
}

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// blocked says whether a request has a login that is not looked at, because too many of its address were wrong.
func (s *Server) blocked(w http.ResponseWriter, r *http.Request) bool {
	if s.config.Credentials.Empty() || r.Header.Get("Authorization") == "" {
		return false
	}
	wait := s.logins.blocked(r.RemoteAddr, time.Now())
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	return wait > 0
}

// refused counts and logs a wrong login. A request without one is how a browser learns that the page needs it. The log
// has no name: people type passwords there.
func (s *Server) refused(r *http.Request) {
	if r.Header.Get("Authorization") == "" {
		return
	}
	if wrong, logged := s.logins.failed(r.RemoteAddr, time.Now()); logged {
		s.config.Logger.LogAttrs(r.Context(), slog.LevelWarn, "the page refused a login; after 20 wrong ones in a minute "+
			"it looks at no login of the address until the minute ends", slog.String("address", r.RemoteAddr),
			slog.Int("wrong_logins", wrong))
	}
}
