package simulate

import "testing"

func TestNext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		virtual float64
		heads   []head
		want    int
	}{
		"none":                             {0, nil, -1},
		"the earlier turn":                 {0, []head{{"a", 2, 1}, {"b", 1, 9}}, 1},
		"of equal turns the name":          {0, []head{{"b", 1, 1}, {"a", 1, 1}}, 1},
		"turns that lie behind":            {5, []head{{"b", 1, 1}, {"a", 4, 1}}, 1},
		"a task that has had its turn":     {0, []head{{"a", 0, 1}, {"b", 9, 0}}, 1},
		"of two such tasks the first name": {0, []head{{"b", 0, 0}, {"a", 9, 0}}, 1},
	} {
		if got := next(tc.virtual, tc.heads); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
