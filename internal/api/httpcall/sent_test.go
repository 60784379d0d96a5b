package httpcall_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/reservations"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWatch(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	dial := func(connect func(context.Context) (net.Conn, error)) http.RoundTripper {
		return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }}
	}
	for name, c := range map[string]struct {
		transport func(cancel func()) http.RoundTripper
		change    func(*http.Request)
		ended     bool
		want      bool
	}{
		"a line end in a header": {
			transport: func(func()) http.RoundTripper { return &http.Transport{} },
			change:    func(r *http.Request) { r.Header.Set("Authorization", "Bearer key\n") }, want: true,
		},
		"a name that is none": {
			transport: func(func()) http.RoundTripper { return &http.Transport{} },
			change:    func(r *http.Request) { r.Header["a b"] = []string{"c"} }, want: true,
		},
		"a method that is none": {
			transport: func(func()) http.RoundTripper { return &http.Transport{} },
			change:    func(r *http.Request) { r.Method = "GET\n" }, want: true,
		},
		"a scheme that is none": {
			transport: func(func()) http.RoundTripper { return &http.Transport{} },
			change:    func(r *http.Request) { r.URL.Scheme = "gopher" }, want: true,
		},
		"no host": {
			transport: func(func()) http.RoundTripper { return &http.Transport{} },
			change:    func(r *http.Request) { r.URL.Host = "" }, want: true,
		},
		"the standard transport": {
			transport: func(func()) http.RoundTripper { return nil },
			change:    func(r *http.Request) { r.Header.Set("A", "\x00") }, want: true,
		},
		"no connection": {
			transport: func(func()) http.RoundTripper {
				return dial(func(context.Context) (net.Conn, error) { return nil, broken })
			},
			want: true,
		},
		"the context ends while it connects": {
			transport: func(cancel func()) http.RoundTripper {
				return dial(func(context.Context) (net.Conn, error) {
					cancel()
					<-t.Context().Done() // the transport connects on, for other calls
					return nil, broken
				})
			},
			want: true,
		},
		"the context has ended before": {
			transport: func(func()) http.RoundTripper { return &http.Transport{} }, ended: true, want: true,
		},
		"the connection breaks": {transport: func(func()) http.RoundTripper {
			return dial(func(context.Context) (net.Conn, error) {
				here, there := net.Pipe()
				return here, there.Close()
			})
		}},
		"a transport that does not trace": {transport: func(func()) http.RoundTripper {
			return roundTripper(func(*http.Request) (*http.Response, error) { return nil, broken })
		}},
		"its error says so": {
			transport: func(func()) http.RoundTripper {
				return roundTripper(func(*http.Request) (*http.Response, error) {
					return nil, &net.OpError{Op: "dial", Err: broken}
				})
			},
			want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.ended {
				cancel()
			}
			client := &http.Client{Transport: c.transport(cancel)}
			watched, mark := httpcall.Watch(ctx, client)
			request := httptest.NewRequestWithContext(watched, http.MethodGet, "http://api.example.com/", nil)
			request.RequestURI = ""
			if c.change != nil {
				c.change(request)
			}
			res, err := client.Do(request)
			if err == nil {
				_ = res.Body.Close()
				t.Fatal("no error")
			}
			if got := errors.Is(mark(err), reservations.ErrNotCalled); got != c.want || mark(err).Error() != err.Error() {
				t.Errorf("%v: not called %v, want %v", err, got, c.want)
			}
		})
	}
}
