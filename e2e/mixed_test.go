package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// The models of mixed batches: two for chats and responses of all sizes, and one for embeddings.
const (
	modelSmall = "gpt-4o-mini"
	modelLarge = "gpt-4o"
	modelEmbed = "text-embedding-3-small"
)

// The kinds of lines in a mixed batch.
const (
	kindSmallChat = "small chat"
	kindLargeChat = "large chat"
	kindResponse  = "response"
	kindEmbedding = "embedding"
	kindRefused   = "refused"
)

// mixed is a batch with requests of all kinds and sizes.
type mixed struct {
	text          string
	kinds, models map[string]string // by custom_id
}

func (m mixed) count(kind string) (n int) {
	for _, k := range m.kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// mixedRequests returns n lines in the OpenAI Batch input format, always the same. Prompts have 20 to 4000
// characters, answers at most 20 to 800 tokens. The provider refuses one of a hundred; no check before the call finds
// its fault.
func mixedRequests(t *testing.T, n int) mixed {
	t.Helper()
	m := mixed{kinds: map[string]string{}, models: map[string]string{}}
	var b strings.Builder
	r := rand.New(rand.NewPCG(5, 1))
	for i := 1; i <= n; i++ {
		id := fmt.Sprintf("m%05d", i)
		kind, url, body := mixedBody(r)
		body["metadata"] = map[string]string{"headway_task": id}
		text, err := json.Marshal(map[string]any{"custom_id": id, "method": "POST", "url": url, "body": body})
		if err != nil {
			t.Fatal(err)
		}
		m.kinds[id], m.models[id] = kind, fmt.Sprint(body["model"])
		b.Write(append(text, '\n'))
	}
	m.text = b.String()
	return m
}

// mixedBody returns a random request.
func mixedBody(r *rand.Rand) (kind, url string, body map[string]any) {
	model := modelSmall
	if r.IntN(3) == 0 {
		model = modelLarge
	}
	const chats = "/v1/chat/completions"
	message := func(role string, content any) map[string]any { return map[string]any{"role": role, "content": content} }
	switch share := r.IntN(100); {
	case share < 1:
		return kindRefused, chats, map[string]any{"model": model, "max_tokens": 20, "messages": []any{message("user", 7)}}
	case share < 45:
		return kindSmallChat, chats, map[string]any{
			"model": model, "max_tokens": 20 + r.IntN(40), "messages": []any{message("user", prose(r, 20+r.IntN(80)))},
		}
	case share < 65:
		return kindLargeChat, chats, map[string]any{
			"model": model, "max_completion_tokens": 200 + r.IntN(600),
			"messages": []any{message("system", "You answer in one word."), message("user", prose(r, 400+r.IntN(3600)))},
		}
	case share < 80:
		return kindResponse, "/v1/responses", map[string]any{
			"model": model, "max_output_tokens": 50 + r.IntN(250), "instructions": "You answer in one word.",
			"input": prose(r, 50+r.IntN(400)),
		}
	default:
		texts := make([]string, 1+r.IntN(8))
		for i := range texts {
			texts[i] = prose(r, 100+r.IntN(300))
		}
		return kindEmbedding, "/v1/embeddings", map[string]any{"model": modelEmbed, "input": texts}
	}
}

// prose returns a text of that many characters.
func prose(r *rand.Rand, characters int) string {
	words := strings.Fields(
		"the limit holds a request waits its turn while tokens of large answers come back and no task is lost")
	var b strings.Builder
	for b.Len() < characters {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()[:characters]
}
