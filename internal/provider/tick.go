package provider

import (
	"encoding/json"
	"net/http"
)

// tick is an endpoint for tasks that are no LLM calls: one request, no tokens.
func (s *Server) tick(w http.ResponseWriter, r *http.Request) {
	now := s.cfg.NowFunc()
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var req struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
		return
	}
	task := r.Header.Get(TaskHeader)
	if task == "" {
		task = req.ID
	}
	s.serve(w, r, now, job{
		task:      task,
		character: s.characterOf(body),
		answer:    map[string]any{"id": req.ID, "object": "tick"},
	})
}
