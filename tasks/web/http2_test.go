package web_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/tasks/web"
)

// Over HTTP/2 too, no frame with the secret in it is shown.
func TestSecretsDoNotComeBackOverHTTP2(t *testing.T) {
	t.Parallel()
	const key = "Sk-Proj/0123+4567=89_abc"
	block := func(fields ...string) []byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for i := 0; i < len(fields); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // to a buffer
		}
		return b.Bytes()
	}
	headers := func(f *http2.Framer, id uint32, end bool, fields ...string) error {
		return f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: block(fields...), EndHeaders: true, EndStream: end,
		})
	}
	made := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(made.Close)
	for name, answer := range map[string]func(f *http2.Framer, id uint32) error{
		"goaway": func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, []byte(key)) },
		"goaway 2": func(f *http2.Framer, id uint32) error {
			return f.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, []byte(key))
		},
		"status": func(f *http2.Framer, id uint32) error { return headers(f, id, true, ":status", key) },
		"pseudo header": func(f *http2.Framer, id uint32) error {
			return headers(f, id, true, ":status", "200", ":"+key, key)
		},
		"name": func(f *http2.Framer, id uint32) error { return headers(f, id, true, ":status", "200", key, key) },
		"value": func(f *http2.Framer, id uint32) error {
			return headers(f, id, true, ":status", "400", "x-request-id", key)
		},
		"length": func(f *http2.Framer, id uint32) error {
			return headers(f, id, true, ":status", "200", "content-length", key)
		},
		"unknown frame": func(f *http2.Framer, id uint32) error { return f.WriteRawFrame(0xbe, 0, id, []byte(key)) },
		"no frame": func(f *http2.Framer, id uint32) error {
			return f.WriteRawFrame(http2.FrameSettings, 0, id, []byte(key))
		},
		"compressed text": func(f *http2.Framer, id uint32) error {
			return f.WriteRawFrame(http2.FrameHeaders, 4, id, []byte(key))
		},
		"trailer": func(f *http2.Framer, id uint32) error {
			return errors.Join(headers(f, id, false, ":status", "200"), f.WriteData(id, false, []byte(key)),
				headers(f, id, true, "x-"+key, key))
		},
		"stream": func(f *http2.Framer, id uint32) error {
			return errors.Join(headers(f, id, false, ":status", "200"), f.WriteData(id, false, []byte(key)),
				f.WriteRSTStream(id, http2.ErrCodeInternal))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { notShownOverHTTP2(t, made, key, answer) })
		})
	}
}

// notShownOverHTTP2 makes a call with the key, and looks for it in everything that is visible of the answer.
func notShownOverHTTP2(
	t *testing.T, made *httptest.Server, key string, answer func(f *http2.Framer, id uint32) error,
) {
	t.Helper()
	client := newClient(t, web.Config{
		AllowHosts: []string{"example.com"}, HTTPClient: &http.Client{Transport: overHTTP2(t, made, answer)},
		Secrets: map[string]web.Secret{"KEY": {Value: key, Hosts: []string{"example.com"}}},
	})
	r := web.Request{URL: "https://example.com", Header: map[string]string{"X-Key": "${KEY}"}, TimeoutSeconds: 5}
	got, err := client.Run(t.Context(), r, nil)
	seen := testenv.Shown(err) + fmt.Sprintf("%v %s", got, got.Body)
	if e, ok := errors.AsType[*web.Error](err); ok {
		seen += fmt.Sprintf("%s %v", e.Answer.Body, e.Answer)
	}
	packed := base64.StdEncoding.EncodeToString([]byte(key))
	if seen = strings.ToLower(seen); strings.Contains(seen, strings.ToLower(key)) || strings.Contains(seen, packed) {
		t.Errorf("it is in %s", seen)
	}
}

// overHTTP2 returns the transport to a server in memory with the certificate of another one. The server answers the
// first request of each connection so.
func overHTTP2(
	t *testing.T, made *httptest.Server, answer func(f *http2.Framer, id uint32) error,
) *http.Transport {
	t.Helper()
	config := made.TLS.Clone()
	config.NextProtos = []string{"h2"}
	wire := network.New(network.NewConditions(0, 0, 0, 0), func(c net.Conn) {
		go serveHTTP2(t.Context(), tls.Server(c, config), answer)
	})
	trusting, ok := made.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("no transport")
	}
	transport := trusting.Clone()
	transport.ForceAttemptHTTP2 = true
	transport.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		// After a GOAWAY, net/http tries on new connections until the timeout of the call: time has to pass.
		<-time.After(100 * time.Millisecond)
		return wire.Dial(ctx, kind, address)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// serveHTTP2 serves one connection until its first request is answered, or ctx ends: a client may open a connection
// that it does not use.
func serveHTTP2(ctx context.Context, conn net.Conn, answer func(f *http2.Framer, id uint32) error) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			if answer(f, h.StreamID) != nil {
				return
			}
			_ = f.WriteGoAway(h.StreamID, http2.ErrCodeNo, nil)
			return
		}
	}
}
