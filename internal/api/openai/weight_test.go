package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/api/openai"
)

// data returns random bytes in base64.
func data(seed uint64, bytes int) string {
	random := rand.New(rand.NewPCG(seed, 1))
	raw := make([]byte, bytes)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// indented is a text in lines of 76 letters with spaces before them, as in YAML.
func indented(text string) string {
	var lines strings.Builder
	for len(text) > 76 {
		lines.WriteString("  " + text[:76] + `\n`)
		text = text[76:]
	}
	return lines.String() + "  " + text
}

// inputOf is the estimated input of a request.
func inputOf(t *testing.T, endpoint, request string) float64 {
	t.Helper()
	e, err := openai.Assess(endpoint, json.RawMessage(request))
	if err != nil {
		t.Fatal(err)
	}
	return e.Input
}

// The size of an attachment says little of its tokens. A new type of part is one row. DATA is 800 kB of base64.
func TestDataIsNoProse(t *testing.T) {
	t.Parallel()
	packed := data(1, 600_000)
	const image, bySize = 1500.0, 8000.0
	for name, c := range map[string]struct {
		endpoint, part string
		want           float64
	}{
		"OpenAI, image": {
			openai.Chat, `{"type":"image_url","image_url":{"url":"data:image/png;base64,DATA"}}`, image,
		},
		"OpenAI, sound": {
			openai.Chat, `{"type":"input_audio","input_audio":{"data":"DATA","format":"wav"}}`, bySize,
		},
		"OpenAI, file": {
			openai.Chat, `{"type":"file","file":{"file_data":"data:application/pdf;base64,DATA"}}`, bySize,
		},
		"Responses, image": {
			openai.Responses, `{"type":"input_image","image_url":"data:image/png;base64,DATA"}`, image,
		},
		"Responses, image in low": {
			openai.Responses, `{"type":"input_image","detail":"low","image_url":"data:x/y;base64,DATA"}`, 85,
		},
		"Responses, file": {openai.Responses, `{"type":"input_file","file_data":"DATA"}`, bySize},
		"Responses, screenshot": {
			openai.Responses,
			`{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot",` +
				`"image_url":"data:image/png;base64,DATA"}}`,
			image,
		},
		"Responses, made image": {openai.Responses, `{"type":"image_generation_call","id":"i","result":"DATA"}`, image},
		"Responses, reasoning": {
			openai.Responses, `{"type":"reasoning","id":"r","summary":[],"encrypted_content":"DATA"}`, bySize,
		},
		"Responses, compaction": {openai.Responses, `{"type":"compaction","encrypted_content":"DATA"}`, bySize},
		"Anthropic, image": {
			openai.Chat, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"DATA"}}`, image,
		},
		"Anthropic, document": {openai.Chat, `{"type":"document","source":{"type":"base64","data":"DATA"}}`, bySize},
		"Anthropic, result": {
			openai.Chat, `{"type":"tool_result","content":[{"type":"image","source":{"data":"DATA"}}]}`, image,
		},
		"Anthropic, thinking": {openai.Chat, `{"type":"thinking","thinking":"","signature":"DATA"}`, bySize},
		"Anthropic, redacted": {openai.Chat, `{"type":"redacted_thinking","data":"DATA"}`, bySize},
		"OpenRouter, reasoning": {
			openai.Chat, `{"reasoning_details":[{"type":"reasoning.encrypted","data":"DATA"}]}`, bySize,
		},
		"Gemini, inline":         {openai.Chat, `{"inlineData":{"mimeType":"image/png","data":"DATA"}}`, bySize},
		"Gemini, signed thought": {openai.Chat, `{"extra_content":{"google":{"thought_signature":"DATA"}}}`, bySize},
		"Qwen, image":            {openai.Chat, `{"type":"image","image":"data:image/png;base64,DATA"}`, image},
		"Qwen, image by field":   {openai.Chat, `{"image":"data:image/png;base64,DATA"}`, bySize},
		"Qwen, video": {
			openai.Chat, `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,DATA"}}`, bySize,
		},
		"Qwen, frames": {openai.Chat, `{"type":"video","video":["data:image/jpeg;base64,DATA"]}`, bySize},
		"vLLM, sound": {
			openai.Chat, `{"type":"audio_url","audio_url":{"url":"data:audio/wav;base64,DATA"}}`, bySize,
		},
		"Mistral, document": {
			openai.Chat, `{"type":"document_url","document_url":"data:application/pdf;base64,DATA"}`, bySize,
		},
		"Bedrock, image":  {openai.Chat, `{"image":{"format":"png","source":{"bytes":"DATA"}}}`, bySize},
		"MCP, a resource": {openai.Chat, `{"type":"resource","resource":{"uri":"a","blob":"DATA"}}`, bySize},
		"MCP, an image":   {openai.Chat, `{"type":"image","data":"DATA","mimeType":"image/png"}`, image},
		"Mistral, image":  {openai.Chat, `{"type":"image_url","image_url":"data:image/png;base64,DATA"}`, image},
		"Ollama, images":  {openai.Chat, `{"images":["DATA"]}`, bySize},
		"Anthropic, a result of a search": {
			openai.Chat, `{"type":"web_search_tool_result","content":[{"type":"web_search_result","encrypted_content":"DATA"}]}`,
			bySize,
		},
		"lines with spaces before them": {
			openai.Chat, `{"type":"hologram","cube":"` + indented(packed) + `"}`, 8300,
		},
		"a data URL with a charset": {
			openai.Chat, `{"type":"hologram","cube":"data:text/plain;charset=utf-8;base64,DATA"}`, bySize,
		},
		"a type of tomorrow": {openai.Chat, `{"type":"hologram","cube":{"bytes":"DATA"}}`, bySize},
		"a text":             {openai.Chat, `{"type":"text","text":"DATA"}`, bySize},
		"a sound of silence": {
			openai.Chat, `{"type":"hologram","cube":"` + strings.Repeat("A", 800_000) + `"}`, bySize,
		},
		"the same again and again": {
			openai.Chat, `{"type":"hologram","cube":"` + strings.Repeat("iVBORw0K", 100_000) + `"}`, bySize,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part := strings.ReplaceAll(c.part, "DATA", packed)
			request := `{"messages":[{"role":"user","content":[` + part + `]}]}`
			if c.endpoint == openai.Responses {
				request = `{"input":[` + part + `]}`
			}
			if got := inputOf(t, c.endpoint, request); got < c.want || got > c.want+50 {
				t.Errorf("got %v tokens, want about %v", got, c.want)
			}
		})
	}
	for name, request := range map[string]string{
		"a variable": `{"prompt":{"id":"p","variables":{"a":{"type":"input_image","image_url":"` + packed + `"}}}}`,
		"a mask": `{"input":"a","tools":[{"type":"image_generation",` +
			`"input_image_mask":{"image_url":"` + packed + `"}}]}`,
		"instructions": `{"input":"a","instructions":"` + packed + `"}`,
	} {
		if got := inputOf(t, openai.Responses, request); got > 10_000 {
			t.Errorf("%s: %v tokens", name, got)
		}
	}
	if got := inputOf(t, openai.Embeddings, `{"input":["`+packed+`"]}`); got > 10_000 {
		t.Errorf("embedded: %v tokens", got)
	}
}

// Data inside of a longer text is no prose, and the prose around it is. DATA is 800 kB of base64, which is a token for
// 100 bytes.
func TestDataWithinProse(t *testing.T) {
	t.Parallel()
	packed := data(1, 600_000)
	words := strings.Repeat("some words before and after it. ", 100) // 800 tokens
	for name, text := range map[string]string{
		"markdown":       words + "![a chart](data:image/png;base64,DATA)" + words,
		"HTML":           words + `<img src="data:image/png;base64,DATA">` + words,
		"a result":       words + `{"mimeType":"image/png","blob":"DATA"}` + words,
		"PHP's escapes":  words + `{"blob":"` + strings.ReplaceAll(packed, "/", `\/`) + `"}` + words,
		"lines":          words + "\nimage: |\n" + strings.ReplaceAll(indented(packed), `\n`, "\n") + "\n" + words,
		"escaped lines":  words + `{"pem":"` + strings.ReplaceAll(indented(packed), "  ", "") + `"}` + words,
		"several":        words + packed[:400_000] + " and " + packed[400_000:] + words,
		"URL-safe":       words + strings.NewReplacer("+", "-", "/", "_").Replace(packed) + words,
		"at its end":     words + words + "DATA",
		"at its begin":   "DATA " + words + words,
		"as a tool said": words + "b'DATA'" + words,
	} {
		content, _ := json.Marshal(strings.ReplaceAll(text, "DATA", packed))
		request := fmt.Sprintf(`{"messages":[{"role":"user","content":%s}]}`, content)
		const want = 8000 + 2*800
		if got := inputOf(t, openai.Chat, request); got < want || got > want+400 {
			t.Errorf("%s: got %v tokens, want about %v", name, got, want)
		}
	}
}

// Texts that look a little like data count as texts.
func TestProseIsNoData(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words":          strings.Repeat("The quick brown fox jumps over 13 lazy dogs. ", 500),
		"Chinese":        strings.Repeat("日本語で", 2000),
		"DNA":            strings.Repeat("GATTACA", 1000),
		"DNA in lines":   strings.Repeat(strings.Repeat("GATTACAG", 10)+"\n", 500),
		"hexadecimal":    strings.Repeat("0123456789abcdef", 400),
		"a list":         strings.Repeat("Apple7\nPear\n", 500),
		"a data word":    "data: " + strings.Repeat("a, b and c; ", 100),
		"a list of data": "data:2026/11, " + strings.Repeat("the sales of a shop, and more, ", 500),
		"a drawing":      "data:image/svg+xml;utf8,<svg " + strings.Repeat(`<path d="M 1 2 L 3 4"/> `, 500),
		"a path":         strings.Repeat("/usr/Local.d/lib64", 100),
		"a document":     strings.Repeat("a text in a document ", 400),
		"addresses":      strings.Repeat("https://Example.com/a1/b2/c3_D4 ", 300),
		"short keys":     strings.Repeat("a key is "+data(9, 300)+" and then\n", 30),
		"words of code":  strings.Repeat("AbstractFactory2Bean/", 20) + " " + strings.Repeat("x = y\n", 300),
	} {
		content, _ := json.Marshal(text)
		request := fmt.Sprintf(`{"messages":[{"role":"user","content":%s}]}`, content)
		if name == "a document" {
			request = fmt.Sprintf(
				`{"messages":[{"content":[{"type":"document","source":{"type":"text","data":%s}}]}]}`, content)
		}
		if got, want := inputOf(t, openai.Chat, request), float64(len(text))/4; got < want || got > want+20 {
			t.Errorf("%s: got %v tokens, want %v", name, got, want)
		}
	}
}

// Random bytes in base64 never count a quarter of it, wherever they are. Random words always do.
func FuzzWeight(f *testing.F) {
	f.Add(uint64(1), 1000, "image_url")
	f.Add(uint64(2), 9000, "reasoning")
	f.Add(uint64(3), 390, "")
	f.Fuzz(func(t *testing.T, seed uint64, bytes int, kind string) {
		bytes = 390 + max(0, bytes)%50_000
		packed := data(seed, bytes)
		var lines strings.Builder
		for rest := packed; rest != ""; {
			n := min(76, len(rest))
			lines.WriteString(rest[:n] + "\n")
			rest = rest[n:]
		}
		for _, text := range []string{
			packed, lines.String(), strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(packed),
			"data:image/png;base64," + packed,
		} {
			request, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"content": []any{
				map[string]any{"type": kind, "x": map[string]any{kind: text}},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			// The least of an attachment, and the kind itself, may be as much.
			if got := inputOf(t, openai.Chat, string(request)); got > max(1520, float64(len(text))/20)+float64(len(kind)) {
				t.Errorf("%d bytes in %q: %v tokens", len(text), kind, got)
			}
		}
		words := strings.TrimSpace(strings.ReplaceAll(packed, "a", " "))
		if !strings.Contains(words, " ") {
			return
		}
		request, _ := json.Marshal(map[string]any{"messages": []any{map[string]any{"content": words}}})
		if got := inputOf(t, openai.Chat, string(request)); got < float64(len(words))/4 {
			t.Errorf("%d bytes of words: %v tokens", len(words), got)
		}
	})
}
