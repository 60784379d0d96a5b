package gateway

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/headway-go/headway/internal/documents/keys"
)

// serveModels lists the models that the key may use, of the models that the providers list in the settings. If none
// lists any, it asks the provider. Neither takes from a limit.
func (g *Gateway) serveModels(w http.ResponseWriter, r *http.Request, to route, key keys.Key) {
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	listed := []model{}
	for _, p := range g.config.Providers {
		for _, name := range p.Models {
			if key.May(name) {
				listed = append(listed, model{ID: name, Object: "model", OwnedBy: p.Name})
			}
		}
	}
	var found any = map[string]any{"object": "list", "data": listed}
	if to.rest != "" {
		i := slices.IndexFunc(listed, func(m model) bool { return m.ID == to.rest })
		if i < 0 && (len(listed) > 0 || !key.May(to.rest)) {
			writeFault(w, to.family, fault{
				status: http.StatusNotFound, code: "model_not_found", param: "model",
				message: "This gateway lists no such model for this key.",
			})
			return
		}
		if i >= 0 {
			found = listed[i]
		}
	}
	if len(listed) == 0 && len(key.Models) == 0 {
		if to.endpoint = models; to.rest != "" {
			to.endpoint += "/" + to.rest
		}
		o := order{provider: g.config.Providers[max(0, g.providerOf(g.fallback.Limit))]}
		g.pass(w, r, &call{route: to}, o, deadline{})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found) // an error means that the caller has gone
}
