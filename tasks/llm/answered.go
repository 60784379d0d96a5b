package llm

import (
	"encoding/json"
	"net/http"
)

// Answered is the answer that the provider gave, for where answers are kept: its status (zero where none came, or one that is no error and can't be used), the provider's name for the call, and the
// body as it came where that is a JSON object, else in the shape of OpenAI's errors. It never holds the API key.
func (e *Error) Answered() (status int, requestID string, body json.RawMessage) {
	if e.StatusCode < http.StatusBadRequest {
		return 0, "", nil
	}
	if isObject(e.Body) {
		return e.StatusCode, e.RequestID, e.Body
	}
	var answer struct {
		Error struct {
			Message string  `json:"message"`
			Type    *string `json:"type"`
			Param   *string `json:"param"`
			Code    *string `json:"code"`
		} `json:"error"`
	}
	named := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	answer.Error.Message, answer.Error.Type = e.Message, named(e.Type)
	answer.Error.Param, answer.Error.Code = named(e.Param), named(e.Code)
	body, _ = json.Marshal(answer) // texts have no fault
	return e.StatusCode, e.RequestID, body
}
