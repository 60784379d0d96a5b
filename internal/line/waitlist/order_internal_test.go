package waitlist

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/line/class"
)

// Which of the waiting tasks is next. A lane is "class tenant: tag tag", or "back: time time".
func TestOrder(t *testing.T) {
	t.Parallel()
	of := func(class, tenant string, tags ...float64) lane {
		l := lane{class: class, tenant: tenant, count: len(tags)}
		for i, tag := range tags {
			name := class + tenant + string(rune('0'+i))
			l.heads = append(l.heads, head{Waiting: Waiting{Task: Task{Queue: "q", ID: name}}, tag: tag, turn: 1, part: 1})
		}
		return l
	}
	with := func(l lane, change func(*lane)) lane {
		change(&l)
		return l
	}
	back := func(id string, times ...micros) (l lane) {
		l.back, l.count = true, len(times)
		for i, at := range times {
			name := id + string(rune('0'+i))
			l.heads = append(l.heads, head{Waiting: Waiting{Task: Task{Queue: id, ID: name}}, back: at})
		}
		return l
	}
	for name, tc := range map[string]struct {
		virtual float64
		lanes   []lane
		want    string
	}{
		"none":                              {},
		"one flow, first come first served": {lanes: []lane{of("", "a", 0, 1, 2)}, want: "a0 a1 a2"},
		"tenants in turn": {
			lanes: []lane{of("", "a", 0, 0, 0, 0), of("", "b", 7, 8)}, want: "a0 b0 a1 b1 a2 a3",
		},
		"a tenant of twice the weight": {
			lanes: []lane{of("", "a", 0, 1, 2), with(of("", "b", 0, 1, 2, 3), func(l *lane) {
				for i := range l.heads {
					l.heads[i].part = .5
				}
			})},
			want: "a0 b0 b1 a1 b2 b3 a2",
		},
		"a tenant whose last turn has not ended": {
			lanes: []lane{with(of("", "a", 0, 1), func(l *lane) { l.begins = 1.5 }), of("", "b", 0, 1, 2)},
			want:  "b0 b1 a0 b2 a1",
		},
		"a tenant that was away catches up with nothing": {
			lanes: []lane{
				with(of("", "a", 0, 1), func(l *lane) { l.virtual = 9 }),
				with(of("", "b", 0, 1), func(l *lane) { l.begins, l.virtual = 9, 9 }),
			},
			want: "a0 b0 a1 b1",
		},
		"classes in turn, each with its tenants": {
			lanes: []lane{of("x", "a", 0, 1), of("x", "b", 0, 1), of("y", "a", 0)}, want: "xa0 ya0 xb0 xa1 xb1",
		},
		"a class of four times the weight": {
			lanes: []lane{with(of("x", "", 0, 1, 2, 3, 4), func(l *lane) {
				for i := range l.heads {
					l.heads[i].turn = .25
				}
			}), of("y", "", 0, 1)},
			want: "x0 y0 x1 x2 x3 x4 y1",
		},
		"tasks that come back are first, by their first promotions": {
			lanes: []lane{back("p", 5, 7), of("x", "a", 0), back("r", -3, 6)}, want: "r0 p0 r1 p1 xa0",
		},
		"a tenant in two queues": {
			lanes: []lane{with(of("", "a", 1, 3), func(l *lane) {
				for i := range l.heads {
					l.heads[i].Queue, l.heads[i].ID = "slow", l.heads[i].ID+"s"
				}
			}), of("", "a", 0, 2)},
			want: "a0 a0s a1 a1s",
		},
		"of equal tags the first queue by name": {
			lanes: []lane{with(of("", "a", 0, 1), func(l *lane) {
				for i := range l.heads {
					l.heads[i].Queue, l.heads[i].ID = "slow", l.heads[i].ID+"s"
				}
			}), of("", "a", 0, 1)},
			want: "a0 a0s a1 a1s",
		},
		"of tasks that came back at one time the first queue by name": {
			lanes: []lane{back("r", 5), back("p", 5, 6)}, want: "p0 r0 p1",
		},
		"the class of urgent tasks is before a priority of an equal turn": {
			lanes: []lane{of("bulk", "", 0, 1), of(class.Urgent, "", 0, 1)}, want: "!urgent0 bulk0 !urgent1 bulk1",
		},
		"it ends where more is not known": {
			lanes: []lane{with(of("", "a", 0, 1), func(l *lane) { l.count = 9 }), of("", "b", 0, 1, 2)},
			want:  "a0 b0 a1",
		},
		"also for tasks that come back": {
			lanes: []lane{with(back("p", 5, 7), func(l *lane) { l.count = 9 }), of("", "b", 0), back("r", 6, 8)},
			want:  "p0 r0 p1",
		},
	} {
		var got []string
		for _, h := range ordered(tc.virtual, tc.lanes) {
			got = append(got, h.ID)
		}
		if text := strings.Join(got, " "); text != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
}
