package fleet

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/tracing"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/web"
)

// Nothing that a process reads from its environment leads elsewhere, and no key is real.
func TestConfinedEnvironment(t *testing.T) {
	t.Parallel()
	var c config.Config
	c.HTTP.Secrets = map[string][]string{"BILLING": {"a.example"}}
	c.Providers = config.Providers{{Name: "azure", Key: "AZURE_KEY"}}
	const here, direct = "mongodb://127.0.0.1:27017", "?directConnection=true"
	for _, tc := range []struct{ name, value, want string }{
		{"BILLING", "sk-live", devSecret},
		{"BILLING", "", devSecret},
		{"AZURE_KEY", "sk-live", devSecret},
		{"USER", "ann", "ann"},
		{"MONGODB_URI", here + "/headway", here + "/headway" + direct}, // it may be a member of a set of hosts elsewhere
		{"MONGODB_URI", here, here + "/" + direct},
		{"MONGODB_URI", here + "/?", here + "/" + direct},
		{"MONGODB_URI", here + "/h?replicaSet=rs0", here + "/h" + direct + "&replicaSet=rs0"},
		{"MONGODB_URI", "mongodb://u:p%2F%3F@[::1]:27018/h", "mongodb://u:p%2F%3F@[::1]:27018/h" + direct},
		{"MONGODB_URI", here + "/h" + direct, here + "/h" + direct},
		{"MONGODB_URI", here + "/h?loadBalanced=true", here + "/h?loadBalanced=true"},
		{"MONGODB_URI", here + "/h?directConnection=false", ""},
		{"MONGODB_URI", "mongodb://u:p@localhost,[::1]:27018/headway", ""},
		{"MONGODB_URI", here + "/h?authMechanism=MONGODB-AWS", ""}, // asks 169.254.169.254 for a key
		{"MONGODB_URI", here + "/h?authMechanism=MONGODB-OIDC&authMechanismProperties=ENVIRONMENT:gcp,TOKEN_RESOURCE:a", ""},
		{"MONGODB_URI", "mongodb://u@localhost/?authMechanism=gssapi", ""},
		{"MONGODB_URI", "mongodb://db.example/headway", ""},
		{"MONGODB_URI", "mongodb://10.0.0.1/headway", ""},
		{"MONGODB_URI", "mongodb://127.0.0.1,db.example/headway", ""},
		{"MONGODB_URI", "mongodb://localhost@db.example/headway", ""},
		{"MONGODB_URI", "mongodb+srv://db.example/headway", ""},
		{"MONGODB_URI", "oops", ""},
		{"MONGODB_URI", "", ""},
	} {
		got := confined(c, func(name string) string { return map[string]string{tc.name: tc.value}[name] })(tc.name)
		if got != tc.want {
			t.Errorf("%s=%q: got %q, want %q", tc.name, tc.value, got, tc.want)
		}
		if tc.name != "MONGODB_URI" || got == "" {
			continue
		}
		if o := options.Client().ApplyURI(got); o.Direct == nil && o.LoadBalanced == nil {
			t.Errorf("%s: the driver calls other hosts too", got)
		}
	}
	const endpoint, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	for _, tc := range []struct {
		env  map[string]string
		sent bool
	}{
		{nil, false},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		{map[string]string{endpoint: "http://localhost:4318"}, true},
		{map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, false},
		{map[string]string{endpoint: "https://otlp.example"}, false},
		{map[string]string{endpoint: "http://LOCALHOST:4318"}, false}, // goes to the proxy of HTTP_PROXY
		{map[string]string{endpoint: "http://localhost:4318", traces: "https://otlp.example"}, false},
		{map[string]string{endpoint: "://", "OTEL_TRACES_EXPORTER": "otlp"}, false},
	} {
		if got := tracing.Enabled(confined(c, func(name string) string { return tc.env[name] })); got != tc.sent {
			t.Errorf("%v: traces are sent: %v", tc.env, got)
		}
	}
}

// A request to this machine does not go to the proxy of HTTP_PROXY, as it would for localhost in capital letters.
func TestDevUsesNoProxy(t *testing.T) {
	t.Parallel()
	transport, ok := newDevHosts().here.(*http.Transport)
	if !ok || transport.Proxy != nil {
		t.Errorf("%T has a proxy", newDevHosts().here)
	}
}

// failing is a transport that must not be used for hosts elsewhere.
type failing struct{ calls []string }

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	f.calls = append(f.calls, r.URL.Hostname())
	return nil, io.ErrUnexpectedEOF
}

func TestDevCallsThisMachineOnly(t *testing.T) {
	t.Parallel()
	for address, here := range map[string]bool{
		"https://api.example/x": false, "http://10.0.0.1/": false, "http://0.0.0.0/": false,
		"http://127.0.0.1.example/": false, "http://localhost.example/": false, "http://[2001:db8::1]/": false,
		"http://169.254.169.254/": false,
		"http://127.0.0.1:1/":     true, "http://127.8.9.1/": true, "http://localhost/": true, "http://[::1]:1/": true,
	} {
		f := &failing{}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := devHosts{here: f}.RoundTrip(r)
		if (len(f.calls) == 1) != here || (err != nil) != here {
			t.Errorf("%s: calls %q, %v", address, f.calls, err)
		}
		if answer != nil {
			var said map[string]string
			if err = json.NewDecoder(answer.Body).Decode(&said); err != nil || said["headway_dev"] == "" {
				t.Errorf("%s: %v, %v", address, said, err)
			}
			_ = answer.Body.Close()
		}
	}
}

// A fleet of `headway dev` answers a request to a host elsewhere by itself. It calls a host of this machine without the
// real secret. It enqueues no recurring task.
func TestDevMakesNoRealCalls(t *testing.T) {
	t.Parallel()
	var key atomic.Value
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		key.Store(r.Header.Get("X-Key"))
	}))
	defer service.Close()
	host := strings.TrimPrefix(service.URL, "http://")
	folder := t.TempDir()
	d := &devRun{
		env: map[string]string{
			"HOME": folder, "BILLING": "sk-live-billing", "MONGODB_URI": "mongodb://db.invalid/headway",
			"OTEL_EXPORTER_OTLP_ENDPOINT": "https://otlp.invalid",
		},
		file: filepath.Join(folder, "headway.yaml"), out: &written{},
	}
	settings := devLimits + `
http: {allow_hosts: [api.invalid, "` + host + `"], secrets: {BILLING: [api.invalid, "http://` + host + `"]}}
recurring: {tick: {every: 1s, task: {type: "web:request", payload: {url: "https://api.invalid/tick"}}}}
`
	if err := os.WriteFile(d.file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start(t, "dev", "--config", d.file)
	for _, said := range []string{"1 task is not enqueued", "MONGODB_URI is not used", "are not sent", "others of http"} {
		if !strings.Contains(d.out.String(), said) {
			t.Errorf("dev does not say %q: %s", said, d.out)
		}
	}
	s := d.scheduler(t)
	for _, address := range []string{"https://api.invalid/x", service.URL} {
		info, err := s.Enqueue(t.Context(), web.Request{
			Method: http.MethodPost, URL: address, Header: map[string]string{"X-Key": "${BILLING}"},
		}, tasks.Options{Retention: time.Hour, MaxRetry: tasks.NoRetry})
		if err != nil {
			t.Fatal(err)
		}
		d.until(t, func() bool { return strings.Contains(d.get(t, "/task?id="+info.ID), "was done at") })
	}
	if got := key.Load(); got != devSecret {
		t.Errorf("the service of this machine got the key %q", got)
	}
	if code := d.end(); code != 0 || strings.Contains(d.out.String(), "sk-live") {
		t.Errorf("exit %d: %s", code, d.out)
	}
}
