package gateway

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/api/openai"
)

// family is whose API a call speaks.
type family int

const (
	familyOpenAI family = iota
	familyAnthropic
)

// The endpoints that have no constant in package openai.
const (
	models         = "/v1/models"
	transcriptions = "/v1/audio/transcriptions"
	translations   = "/v1/audio/translations"
)

// route is what a request asks for.
type route struct {
	endpoint string // as it follows the host, with /v1
	family   family
	// deployment is that of a path of Azure's; empty otherwise. Version is its api-version.
	deployment, version string
	rest                string // of the path, behind the endpoint: a model; of files and batches with its slash
	query               url.Values
}

// live are the endpoints of calls.
func live() []string {
	return append(openai.Endpoints(), openai.Images, openai.Speech, openai.Messages, transcriptions, translations)
}

// segment is what a model or a deployment in a path looks like.
var segment = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$`)

// routeOf finds the route of a request. The path is compared as it was sent, so no other spelling of it gets through.
func routeOf(r *http.Request) (to route, problem *fault) {
	path := r.URL.EscapedPath()
	if strings.HasPrefix(path, "/v1/messages") || r.Header.Get("Anthropic-Version") != "" {
		to.family = familyAnthropic
	}
	unknown := &fault{
		status: http.StatusNotFound, code: "unknown_url",
		message: "This gateway has no such URL; docs/gateway.md lists what it serves.",
	}
	if rest, ok := strings.CutPrefix(path, "/openai/deployments/"); ok {
		name, end, _ := strings.Cut(rest, "/")
		to.deployment, path = name, "/v1/"+end
		if !segment.MatchString(name) || path == models {
			return to, unknown
		}
	} else if rest, ok := strings.CutPrefix(path, "/openai/v1/"); ok {
		path = "/v1/" + rest
	}
	method := http.MethodPost
	endpoint, more, batching := batchingPath(path)
	switch rest, model := strings.CutPrefix(path, models+"/"); {
	case slices.Contains(live(), path):
		to.endpoint = path
	case path == models, model && segment.MatchString(rest):
		if to.endpoint, method = models, http.MethodGet; model {
			to.rest = rest
		}
	case batching && to.deployment == "":
		to.endpoint, to.rest, method = endpoint, more, r.Method // it checks the methods itself
	default:
		return to, unknown
	}
	if r.Method != method {
		return to, &fault{
			status: http.StatusMethodNotAllowed, code: "method_not_supported",
			message: "This URL takes " + method + " only.", header: http.Header{"Allow": {method}},
		}
	}
	to.query, problem = queryOf(r.URL.RawQuery)
	to.version = to.query.Get("api-version")
	if to.deployment == "" {
		to.query.Del("api-version")
	}
	return to, problem
}

// queryOf reads a query. It is refused with a key in it, which logs on the way would keep.
func queryOf(text string) (url.Values, *fault) {
	query, err := url.ParseQuery(text)
	if err != nil {
		return url.Values{}, &fault{status: http.StatusBadRequest, message: "The query of the URL can't be read."}
	}
	for name := range query {
		switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)) {
		case "key", "apikey", "token", "accesstoken", "secret", "password", "authorization", "xapikey":
			return url.Values{}, &fault{status: http.StatusBadRequest, code: "key_in_url", message: "A key does not " +
				"belong into a URL: send it as a header, and replace this key, since logs may have it."}
		}
	}
	return query, nil
}
