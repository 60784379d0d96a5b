package dashboard

import "time"

// KeepLook has all views share the last look at the fleet.
func (s *Server) KeepLook() { s.last.At = time.Now().Add(time.Hour) }
