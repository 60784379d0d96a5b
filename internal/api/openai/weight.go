package openai

import (
	"encoding/json"
	"strings"
)

const (
	// imageTokens are about the most that a large image takes, imageLowTokens what one with "detail": "low" takes.
	imageTokens    = 1500
	imageLowTokens = 85
	// mediaTokens is the least for any other attachment. Its bytes, and the bytes of any other data in base64, are a token
	// for each mediaBytes.
	mediaTokens = 1500
	mediaBytes  = 100
)

// weight is what a part of a prompt counts as: bytes of text, and the tokens of all other content.
type weight struct{ bytes, tokens int }

func (w weight) plus(other weight) weight {
	return weight{w.bytes + other.bytes, w.tokens + other.tokens}
}

// medium is a kind of content that is no text.
type medium int

const (
	prose   medium = iota // and objects of any kind with texts in them
	picture               // by its detail
	large                 // by its size: sounds, videos, documents
	sealed                // by its size: what the provider encrypted or signed, and sends to itself
)

// mediumOf is the kind of a part, by its type in the protocols of OpenAI, Anthropic, Qwen, vLLM and OpenRouter. A new
// type is one word.
func mediumOf(part map[string]any) medium {
	name, _ := part["type"].(string)
	switch name {
	case "image_url", "input_image", "image", "image_file", "computer_screenshot", "image_generation_call", "image_pil",
		"image_embeds":
		return picture
	case "input_audio", "audio", "audio_url", "input_video", "video", "video_url", "file", "input_file", "file_url",
		"document", "document_url", "media", "container_upload":
		return large
	case "redacted_thinking", "reasoning.encrypted":
		return sealed
	}
	return prose
}

// opaque are the fields of any part that hold what the provider encrypted or signed: OpenAI's reasoning and compaction,
// Anthropic's thinking, and Gemini's.
func opaque(field string) bool {
	switch field {
	case "encrypted_content", "signature", "thought_signature", "thoughtSignature", "encrypted_index":
		return true
	}
	return false
}

// weigh says what a value in a prompt counts as. Names of fields, numbers and the like are not sent to the model.
func weigh(value any) (w weight) {
	switch v := value.(type) {
	case string:
		return weighText(v)
	case []any:
		for _, one := range v {
			w = w.plus(weigh(one))
		}
	case map[string]any:
		switch mediumOf(v) {
		case picture:
			return weighImage(v)
		case large:
			if source, ok := v["source"].(map[string]any); !ok || source["type"] != "text" { // a document as text
				return weight{tokens: max(mediaTokens, perToken(size(v), mediaBytes))}
			}
		case sealed:
			return weight{tokens: perToken(size(v), mediaBytes)}
		case prose:
		}
		for field, one := range v {
			switch {
			case field == "role", field == "type":
			case opaque(field):
				w.tokens += perToken(size(one), mediaBytes)
			default:
				w = w.plus(weigh(one))
			}
		}
	}
	return w
}

// weighImage is the weight of an image.
func weighImage(part map[string]any) weight {
	inner, _ := part["image_url"].(map[string]any)
	if part["detail"] == "low" || inner["detail"] == "low" {
		return weight{tokens: imageLowTokens}
	}
	return weight{tokens: imageTokens}
}

// weighText is the weight of a text. Each long part of it that is base64 counts as data, and all else as prose.
func weighText(text string) weight {
	if isURL(text) {
		return weight{tokens: perToken(len(text), mediaBytes)}
	}
	data := 0
	for at := 0; at+dataLeast <= len(text); {
		length, is := packedPart(text[at:])
		if is {
			data += length
		}
		at += max(1, length)
	}
	return weight{tokens: perToken(data, mediaBytes), bytes: len(text) - data}
}

// weighRaw is the weight of a field that is sent as JSON, such as the definitions of tools: all of its bytes, but for
// what is no text in it.
func weighRaw(raw json.RawMessage) weight {
	w := weight{bytes: len(raw)}
	if len(raw) <= dataLeast {
		return w
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return w
	}
	if inside := weigh(value); inside.tokens > 0 {
		w = weight{tokens: inside.tokens, bytes: max(0, len(raw)-size(value)+inside.bytes)} // without the data
	}
	return w
}

// size is the bytes of all texts in a value.
func size(value any) (n int) {
	switch v := value.(type) {
	case string:
		return len(v)
	case []any:
		for _, one := range v {
			n += size(one)
		}
	case map[string]any:
		for field, one := range v {
			if field != "type" {
				n += size(one)
			}
		}
	}
	return n
}

const (
	// dataLeast is the length from which on a text may be data, in bytes: no word of a language is so long.
	dataLeast = 512
	// dataSure is the length from which on a text without spaces is data, whichever letters it has.
	dataSure = 8 << 10
	// dataLine is the shortest line of base64 that is cut into lines, usually of 64 or 76 letters.
	dataLine = 60
)

// isURL says whether a long text is nothing but a data URL.
func isURL(text string) bool {
	if len(text) < dataLeast || !strings.HasPrefix(text, "data:") {
		return false
	}
	kind, _, found := strings.Cut(text[:dataLeast], ",")
	return found && strings.ContainsAny(kind, "/;") && !strings.ContainsAny(text, " \n")
}

// packedPart returns the length of the part that begins a text and has only letters of base64, and whether it is data.
// The letters are of either alphabet, in lines or not, and escaped as in JSON or not. There are no spaces but before a
// line. Data has at least dataLeast bytes. Up to dataSure, and in lines, it has letters of both cases and digits, which
// neither a hexadecimal number nor DNA has.
func packedPart(text string) (length int, data bool) {
	var small, capital, digits, lines bool
	for line := 0; length < len(text); length++ {
		switch c := text[length]; {
		case c >= 'a' && c <= 'z':
			small = true
		case c >= 'A' && c <= 'Z':
			capital = true
		case c >= '0' && c <= '9':
			digits = true
		case c == '\n' && line >= dataLine:
			lines, line = true, 0
			continue
		case line == 0 && length > 0 && (c == ' ' || c == '\t'):
			continue
		case strings.IndexByte(`+/-_=\`+"\r", c) < 0:
			return length, sure(length, small && capital && digits, lines)
		}
		line++
	}
	return length, sure(length, small && capital && digits, lines)
}

// sure says whether that many letters of base64 are data.
func sure(length int, mixed, lines bool) bool {
	return length >= dataLeast && mixed || length >= dataSure && !lines
}
