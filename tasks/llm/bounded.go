package llm

import (
	"errors"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/option"

	"github.com/headway-go/headway/tasks/intake"
)

// ErrTooLarge is matched when the body of an answer is above Config.MaxBody.
var ErrTooLarge = errors.New("llm: the answer is too large")

// shortErrors cuts the bodies of answers that are errors, which the official client reads whole: an error stays what its status
// says, however long its page is.
func shortErrors(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if res != nil && res.Body != nil && res.StatusCode >= http.StatusBadRequest {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, intake.Free), res.Body}
	}
	return res, err
}
