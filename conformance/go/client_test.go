// Package conformance runs the official client of OpenAI for Go through the gateway at BASE_URL.
package conformance

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func client(t *testing.T) openai.Client {
	t.Helper()
	base := os.Getenv("BASE_URL")
	if base == "" {
		t.Fatal("BASE_URL is not set: run conformance/run")
	}
	return openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("any"))
}

func hello() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "m", MaxTokens: openai.Int(20),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
	}
}

func TestChat(t *testing.T) {
	c := client(t)
	answer, err := c.Chat.Completions.New(t.Context(), hello())
	if err != nil || !strings.Contains(answer.Choices[0].Message.Content, "stand-in") {
		t.Fatal(answer, err)
	}
}

func TestStream(t *testing.T) {
	c := client(t)
	stream := c.Chat.Completions.NewStreaming(t.Context(), hello())
	all := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if stream.Err() != nil || !strings.HasSuffix(all.Choices[0].Message.Content, "tokens.") {
		t.Fatal(all, stream.Err())
	}
}

func TestResponses(t *testing.T) {
	c := client(t)
	params := responses.ResponseNewParams{
		Model: "m", MaxOutputTokens: openai.Int(20),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")},
	}
	answer, err := c.Responses.New(t.Context(), params)
	if err != nil || !strings.Contains(answer.OutputText(), "stand-in") {
		t.Fatal(answer, err)
	}
}

func TestEmbeddings(t *testing.T) {
	c := client(t)
	answer, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: "m", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}},
	})
	if err != nil || len(answer.Data) != 2 {
		t.Fatal(answer, err)
	}
}

func TestErrors(t *testing.T) {
	c := client(t)
	large := hello()
	large.MaxTokens = openai.Int(1_000_000)
	_, err := c.Chat.Completions.New(t.Context(), large)
	var fault *openai.Error
	if !errors.As(err, &fault) || fault.StatusCode != http.StatusBadRequest || fault.Code != "request_too_large" {
		t.Fatal(err)
	}
}

func TestNoRefusals(t *testing.T) {
	c := client(t)
	failed := make(chan error, 20)
	for range cap(failed) {
		go func() {
			_, err := c.Chat.Completions.New(t.Context(), hello(), option.WithMaxRetries(0))
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
