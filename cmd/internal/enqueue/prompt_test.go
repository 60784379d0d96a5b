package enqueue

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/setup/cli"
)

// The bound of the answer has the name that the model knows. A new model is one row.
func TestBoundOfAModel(t *testing.T) {
	t.Parallel()
	const newer, older = "max_completion_tokens", "max_tokens"
	for model, want := range map[string]string{
		"o1": newer, "o3": newer, "o3-mini": newer, "o4-mini-2025-04-16": newer, "openai/o3": newer, "O3": newer,
		"ft:o4-mini:acme::1": newer, "gpt-5": newer, "gpt-5.1-mini": newer, "gpt-10": newer, "openai/gpt-5-nano": newer,
		"codex-mini-latest": newer,
		"gpt-4o-mini":       older, "gpt-4.1": older, "gpt-3.5-turbo": older, "gpt-oss-120b": older, "gpt-4o": older,
		"llama3.2:3b": older, "claude-opus-4": older, "mistral-large": older, "phi-o3x": older, "yolo3": older,
		"omni-moderation": older, "": older,
	} {
		body, err := requestOf([]string{"hi"}, "", model, 70)
		var fields map[string]any
		if err != nil || json.Unmarshal(body, &fields) != nil || fields[want] != 70.0 || len(fields) != 3 {
			t.Errorf("%s: %s, %v, want %s", model, body, err, want)
		}
		body, err = requestOf([]string{"hi"}, "", model, 0)
		if err != nil || strings.Contains(string(body), "max_") {
			t.Errorf("%s without a bound: %s, %v", model, body, err)
		}
	}
	if _, err := requestOf([]string{"hi"}, "", "m", -1); err == nil {
		t.Error("a negative bound")
	}
}

// A prompt is sent as it is, or refused.
func TestPromptsThatAreNoUTF8(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			stdin string
			args  []string
			want  string
		}{
			"Latin-1":        {"", []string{"caf\xe9"}, "the prompt is not valid UTF-8, at byte 4"},
			"from a pipe":    {"caf\xe9\n", []string{"-"}, "the prompt is not valid UTF-8, at byte 4"},
			"UTF-16":         {"\xff\xfeh\x00i\x00", []string{"-"}, "the prompt is UTF-16 text: write it as UTF-8 first"},
			"gzip":           {"\x1f\x8b\x08\x00", []string{"-"}, "the prompt is a gzip file"},
			"a whole body":   {"", []string{"--body", "{\"messages\":[{\"content\":\"\xe9\"}]}"}, "--body is not valid UTF-8"},
			"a model":        {"", []string{"hi", "--model", "m\xff"}, "--model is not valid UTF-8"},
			"a unique key":   {"", []string{"hi", "--unique", "k\xff"}, "--unique is not valid UTF-8"},
			"days in --keep": {"", []string{"hi", "--keep", "1day"}, "1day"},
		} {
			args := append([]string{"enqueue", "--limit", "openai", "--config", repositoryConfig}, c.args...)
			if got := enqueueCommand(t, c.stdin, args...); got.code != cli.ExitUsage || !strings.Contains(got.err, c.want) {
				t.Errorf("%s: exit %d: %s, want %q", name, got.code, got.err, c.want)
			}
		}
		for name, args := range map[string][]string{
			"a mark of UTF-8": {"-"}, "days": {"hi", "--keep", "2d", "--in", "1d", "--start-by", "3d"},
		} {
			args = append([]string{"enqueue", "--limit", "openai", "--config", repositoryConfig}, args...)
			got := enqueueCommand(t, "\ufeffhi", args...)
			if got.code != cli.ExitOK {
				t.Errorf("%s: exit %d: %s", name, got.code, got.err)
			}
		}
	})
}

// A batch file of another kind is one fault, with --skip-invalid too.
func TestFilesOfOtherKinds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, args := range [][]string{nil, {"--skip-invalid"}} {
			args = append([]string{"batch", "-", "--limit", "openai", "--config", repositoryConfig}, args...)
			got := enqueueCommand(t, "\x1f\x8b\x08\x00\n\n\xff\n", args...)
			if got.code != cli.ExitUsage || !strings.Contains(got.err, "the file is a gzip file: unpack it first") ||
				strings.Contains(got.err, "line 2") {
				t.Errorf("%v: exit %d: %s", args, got.code, got.err)
			}
		}
	})
}
