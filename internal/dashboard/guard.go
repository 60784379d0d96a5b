package dashboard

import (
	"net"
	"net/http"
	"strings"
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
		case !s.config.AnyHost && !loopback(r.Host):
			http.Error(w, "This page answers on loopback only: open it as 127.0.0.1 or localhost.",
				http.StatusMisdirectedRequest)
		case embedded(r):
			http.Error(w, "This request comes from another site.", http.StatusForbidden)
		case !s.config.Credentials.allow(r):
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

// loopback says whether the Host header of a request names this machine.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
