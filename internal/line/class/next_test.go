package class_test

import (
	"testing"

	"github.com/headway-go/headway/internal/line/class"
)

func TestNext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		virtual float64
		members []class.Member
		want    int
	}{
		"none":                    {0, nil, -1},
		"the earlier turn":        {0, []class.Member{{"a", 2}, {"b", 1}}, 1},
		"of equal turns the name": {0, []class.Member{{"b", 1}, {"a", 1}}, 1},
		"turns that lie behind":   {5, []class.Member{{"b", 1}, {"a", 4}}, 1},
	} {
		if got := class.Next(tc.virtual, len(tc.members), func(i int) class.Member { return tc.members[i] }); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
