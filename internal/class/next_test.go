package class_test

import (
	"testing"

	"github.com/headway-go/headway/internal/class"
)

func TestNext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		virtual float64
		heads   []class.Head
		want    int
	}{
		"none":                             {0, nil, -1},
		"the earlier turn":                 {0, []class.Head{{"a", 2, 1}, {"b", 1, 9}}, 1},
		"of equal turns the name":          {0, []class.Head{{"b", 1, 1}, {"a", 1, 1}}, 1},
		"turns that lie behind":            {5, []class.Head{{"b", 1, 1}, {"a", 4, 1}}, 1},
		"a task that has had its turn":     {0, []class.Head{{"a", 0, 1}, {"b", 9, 0}}, 1},
		"of two such tasks the first name": {0, []class.Head{{"b", 0, 0}, {"a", 9, 0}}, 1},
	} {
		if got := class.Next(tc.virtual, tc.heads); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
