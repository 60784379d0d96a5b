package embedded_test

import "testing"

func TestNumbersAsRedis(t *testing.T) {
	t.Parallel()
	actual, memory := twoRedis(t)
	for _, script := range []string{
		`redis.call("ECHO", 1e17)`, `redis.call("ECHO", -99999999999999990)`,
		`tonumber("1e+3")`, `tonumber("1e+20") == 1e20`, `tonumber("-inf") == -math.huge`, `tonumber("1e999") == math.huge`,
		`tonumber("nan") ~= tonumber("nan")`, `tonumber("0x1p4")`, `tonumber("-0x10")`, `tonumber(" 010\n")`,
		`tonumber("5.")`, `tonumber("ff", 16)`, `tonumber("1_0") == nil`, `tonumber("0b1") == nil`, `tonumber("") == nil`,
		`tonumber("0x") == nil`, `tonumber("1 2") == nil`, `tonumber({}) == nil`, `tonumber(7.5) * 2`,
	} {
		c := eval("return " + script)
		if want, got := answer(t, actual, c), answer(t, memory, c); want != got {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}
