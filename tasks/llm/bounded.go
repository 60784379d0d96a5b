package llm

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/option"
)

// ErrTooLarge is matched when the body of an answer is above Config.MaxBody.
var ErrTooLarge = errors.New("llm: the answer is too large")

// bounded ends answers that are longer than most with an error.
func bounded(most int64) option.Middleware {
	return func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		res, err := next(r)
		if res != nil && res.Body != nil {
			res.Body = &boundedBody{ReadCloser: res.Body, left: most, most: most}
		}
		return res, err
	}
}

// boundedBody gives at most some bytes.
type boundedBody struct {
	io.ReadCloser

	left, most int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("%w: above %d bytes", ErrTooLarge, b.most)
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more, to tell an end from a bound
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		n, err = n-1, fmt.Errorf("%w: above %d bytes", ErrTooLarge, b.most)
	}
	return n, err
}
