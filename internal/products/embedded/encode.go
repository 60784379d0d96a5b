package embedded

import (
	"errors"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// deepest is how many tables may stand in each other in a JSON text of Redis.
const deepest = 1000

// unserialisable is an error of Redis.
func unserialisable(what string) error { return errors.New("Cannot serialise" + what) }

// encode is Redis's cjson.encode. That of miniredis makes a text of each table and copies it into the text around it.
func encode(l *lua.LState) int {
	text, err := appendJSON(nil, l.CheckAny(1), 0)
	if err != nil {
		l.RaiseError("%s", err.Error())
	}
	l.Push(lua.LString(text))
	return 1
}

func appendJSON(to []byte, value lua.LValue, depth int) ([]byte, error) {
	switch v := value.(type) {
	case *lua.LTable:
		return appendTable(to, v, depth+1)
	case lua.LString:
		return appendString(to, string(v)), nil
	case lua.LNumber:
		return appendNumber(to, float64(v))
	case lua.LBool:
		return strconv.AppendBool(to, bool(v)), nil
	case *lua.LNilType:
		return append(to, "null"...), nil
	}
	return nil, unserialisable(" " + value.Type().String() + ": type not supported")
}

// appendTable appends a table: a list if all keys are whole numbers from 1 on, else an object. An empty one is an
// object.
func appendTable(to []byte, t *lua.LTable, depth int) ([]byte, error) {
	if depth > deepest {
		return nil, unserialisable(", excessive nesting (1001)")
	}
	n, err := listLength(t)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		to = append(to, '[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				to = append(to, ',')
			}
			if to, err = appendJSON(to, t.RawGetInt(i), depth); err != nil {
				return nil, err
			}
		}
		return append(to, ']'), nil
	}
	to = append(to, '{')
	first := true
	t.ForEach(func(key, value lua.LValue) {
		if err != nil {
			return
		}
		if !first {
			to = append(to, ',')
		}
		first = false
		switch k := key.(type) {
		case lua.LString:
			to = appendString(to, string(k))
		case lua.LNumber:
			to = append(to, '"')
			if to, err = appendNumber(to, float64(k)); err != nil {
				return
			}
			to = append(to, '"')
		default:
			err = unserialisable(" " + key.Type().String() + ": table key must be a number or string")
			return
		}
		to, err = appendJSON(append(to, ':'), value, depth)
	})
	if err != nil {
		return nil, err
	}
	return append(to, '}'), nil
}

// listLength is the largest key of a list, and zero for what is no list. A list may have holes, but not most of it.
func listLength(t *lua.LTable) (int, error) {
	largest, count, list := 0.0, 0, true
	t.ForEach(func(key, _ lua.LValue) {
		k, number := key.(lua.LNumber)
		if n := float64(k); !number || n < 1 || n != math.Floor(n) {
			list = false
		} else {
			largest, count = max(largest, n), count+1
		}
	})
	switch {
	case !list || count == 0:
		return 0, nil
	case largest > 10 && largest > 2*float64(count):
		return 0, unserialisable(" table: excessively sparse array")
	}
	return int(largest), nil
}

func appendNumber(to []byte, n float64) ([]byte, error) {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return nil, unserialisable(" number: must not be NaN or Inf")
	}
	return strconv.AppendFloat(to, n, 'g', 14, 64), nil
}

// appendString appends a text with Redis's escapes. Bytes above ASCII stay as they are.
func appendString(to []byte, text string) []byte {
	const short, long = "\"\\/\b\f\n\r\t", `"\/bfnrt`
	to = append(to, '"')
	for i := range len(text) {
		switch b := text[i]; {
		case b >= ' ' && b != '"' && b != '\\' && b != '/' && b != 0x7f:
			to = append(to, b)
		case strings.IndexByte(short, b) >= 0:
			to = append(to, '\\', long[strings.IndexByte(short, b)])
		default:
			to = append(to, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		}
	}
	return append(to, '"')
}

const hexDigits = "0123456789abcdef"
