package scripts_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Vale checks the words of comments. This test checks the words of strings: errors, help texts and logs. It skips
// tests.
func TestWordsOfStrings(t *testing.T) {
	t.Parallel()
	rules, _ := os.ReadFile("../.vale/Headway/Words.yml")
	list := strings.Join(regexp.MustCompile(`(?m)^  - .+$`).FindAllString(string(rules), -1), "|")
	words := regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(list, "  - ", "") + `)\b`)
	skipped := regexp.MustCompile(`_test\.go$|[^.]..$|[^g].$|[^o]$`)
	if err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || skipped.MatchString(path) {
			return err
		}
		text, err := os.ReadFile(path)
		fset, s := token.NewFileSet(), scanner.Scanner{}
		s.Init(fset.AddFile(path, -1, len(text)), text, nil, 0)
		for pos, kind, literal := s.Scan(); kind != token.EOF; pos, kind, literal = s.Scan() {
			if found := words.FindString(literal); kind == token.STRING && found != "" {
				t.Errorf("%s: %q: name the thing", fset.Position(pos), found)
			}
		}
		return err
	}); err != nil || list == "" {
		t.Error(err, list)
	}
}
