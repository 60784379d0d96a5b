package dashboard

import (
	"maps"
	"slices"
	"time"
)

// KeepLook has all views share the last look at the fleet.
func (s *Server) KeepLook() { s.last.At = time.Now().Add(time.Hour) }

// Changes are the paths of all changes.
func (s *Server) Changes() []string { return slices.Sorted(maps.Keys(s.changes())) }
