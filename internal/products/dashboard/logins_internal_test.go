package dashboard

import (
	"testing"
	"time"
)

func TestWrongLoginsBlockTheirAddress(t *testing.T) {
	t.Parallel()
	l, now := newLogins(), time.Unix(1_800_000_000, 0)
	const attacker = "203.0.113.9:1000"
	lines := 0
	for i := range wrongMost {
		if wait := l.blocked(attacker, now); wait != 0 {
			t.Fatalf("blocked for %v after %d", wait, i)
		}
		if _, logged := l.failed(attacker, now.Add(time.Duration(i)*time.Second)); logged {
			lines++
		}
	}
	if lines != 2 {
		t.Errorf("%d lines are logged", lines)
	}
	for _, c := range []struct {
		address string
		at      time.Duration
		want    time.Duration
	}{
		{attacker, 19 * time.Second, 41 * time.Second},
		{"203.0.113.9:2", 19 * time.Second, 41 * time.Second},
		{"[::ffff:203.0.113.9]:2", 19 * time.Second, 41 * time.Second},
		{"203.0.113.10:2", 19 * time.Second, 0},
		{"[2001:db8::1]:2", 19 * time.Second, 0},
		{"", 19 * time.Second, 0},
		{attacker, loginWindow, 0},
	} {
		if got := l.blocked(c.address, now.Add(c.at)); got != c.want {
			t.Errorf("%q after %v: blocked for %v, want %v", c.address, c.at, got, c.want)
		}
	}
	if wrong, logged := l.failed(attacker, now.Add(loginWindow)); wrong != 1 || !logged {
		t.Errorf("a new window begins with %d, %v", wrong, logged)
	}
	for _, pair := range [][2]string{
		{"[2001:db8::1]:1", "[2001:db8::ffff:2]:2"}, {"[fe80::1%eth0]:1", "[fe80::2%eth1]:1"},
	} {
		if sourceOf(pair[0]) != sourceOf(pair[1]) {
			t.Errorf("%q are two", pair)
		}
	}
	if sourceOf("[2001:db8:0:1::1]:1") == sourceOf("[2001:db8:0:2::1]:1") {
		t.Error("two networks are one")
	}
}
