package embedded

import (
	"errors"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// tonumber is Lua's. That of gopher-lua returns nil for "1e+20" and "inf", which Redis sends as scores.
func tonumber(original *lua.LFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		text, ok := l.CheckAny(1).(lua.LString)
		if base := l.OptInt(2, 10); !ok || base != 10 {
			l.Insert(original, 1)
			l.Call(l.GetTop()-1, 1)
			return 1
		}
		n, ok := number(string(text))
		if !ok {
			l.Push(lua.LNil)
			return 1
		}
		l.Push(lua.LNumber(n))
		return 1
	}
}

// number is the number of a text as C's strtod reads it. It returns false for a text that is no number.
func number(text string) (float64, bool) {
	text = strings.Trim(text, " \t\n\v\f\r")
	if strings.Contains(text, "_") { // digits of Go alone
		return 0, false
	}
	unsigned := strings.ToLower(strings.TrimLeft(text, "+-"))
	if strings.HasPrefix(unsigned, "0x") && !strings.Contains(unsigned, "p") {
		text += "p0" // Go requires an exponent
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil || errors.Is(err, strconv.ErrRange)
}

// numeral is the text of a number as Redis passes it to a command.
func numeral(n float64) string {
	if whole := int64(n); n > -1e17 && n < 1e17 && float64(whole) == n {
		return strconv.FormatInt(whole, 10)
	}
	return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(n, 'g', 17, 64), "+"))
}
