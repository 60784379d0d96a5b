package openai

import (
	"encoding/json"
	"strings"
)

// Written returns what the model wrote in an answer: of a chat, a completion or a response. Several choices are
// paragraphs. An answer of another form has no text.
func Written(answer []byte) string {
	var a struct {
		Choices []struct {
			Text    string `json:"text"`
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Output []struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"output"`
	}
	_ = json.Unmarshal(answer, &a)
	var texts []string
	for _, c := range a.Choices {
		texts = append(texts, c.Message.Content+c.Text)
	}
	for _, o := range a.Output {
		for _, c := range o.Content {
			texts = append(texts, c.Text)
		}
	}
	return strings.TrimSpace(strings.Join(texts, "\n\n"))
}
