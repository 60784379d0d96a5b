package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// packing returns how a body is packed that the transport has not unpacked; empty for one that is as it is.
func packing(h http.Header) string {
	encoding := strings.Join(h.Values("Content-Encoding"), ", ")
	if strings.EqualFold(encoding, "identity") {
		return ""
	}
	return encoding
}

// packedError is the body in place of an error that is packed: no text and no secret would be found in that.
func (c *Client) packedError(h http.Header) string {
	message := fmt.Sprintf("the error is packed as %q, which was not asked for", c.redact(packing(h)))
	text, _ := json.Marshal(map[string]map[string]string{"error": {"message": message}}) // texts have no fault
	return string(text)
}
