package scheduler

import (
	"regexp"
	"strconv"
	"strings"
)

// toSunday is a range of weekdays that ends with a Sunday, and perhaps a step. From one Sunday to the next, the end is
// a 7: "sun-sun" is one day.
var toSunday = regexp.MustCompile(
	`^(?i:(?:0*([1-7])|(mon|tue|wed|thu|fri|sat))-(?:0*7|sun)|(?:0+|sun)-0*7)(?:/([1-9]\d?))?$`)

// sevenDay is the other number of a Sunday.
var sevenDay = regexp.MustCompile(`^0*7$`)

// withSunday writes the weekdays of a cron expression as the parser knows them: 7 is a Sunday too, and a week may end
// with it, as in "5-7" and "fri-sun". Other texts stay as they are.
func withSunday(spec string) string {
	fields := strings.Fields(spec)
	if len(fields) != 5 {
		return spec
	}
	parts := strings.Split(fields[4], ",")
	for i, part := range parts {
		if sevenDay.MatchString(part) {
			parts[i] = "0"
		} else if m := toSunday.FindStringSubmatch(part); m != nil {
			parts[i] = untilSunday(m[1], m[2], m[3])
		}
	}
	fields[4] = strings.Join(parts, ",")
	return strings.Join(fields, " ")
}

// untilSunday lists the weekdays from a number or a name to the next Sunday.
func untilSunday(number, name, step string) string {
	from, _ := strconv.Atoi(number)
	if name != "" {
		from = 1 + strings.Index("mon tue wed thu fri sat", strings.ToLower(name))/4
	}
	by, err := strconv.Atoi(step)
	if err != nil { // there is none
		by = 1
	}
	var days []string
	for day := from; day <= 7; day += by {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}
