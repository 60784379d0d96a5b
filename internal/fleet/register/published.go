package register

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
)

const (
	// limitsKept is for how long the limits of a member are stored after its last renewal.
	limitsKept = 2 * lives
	// weightsMost is how many weights of flows are published. A limit with more is published without them.
	weightsMost = 100
)

func limitsKey(hash string) string { return root + "limits:" + hash }

// packed returns the limits of a member as they are stored, nil for none, and sets the hash.
func packed(m *Member) ([]byte, error) {
	if m.Hash = ""; len(m.Limits) == 0 {
		return nil, nil
	}
	var all []reservations.Limit
	for _, name := range slices.Sorted(maps.Keys(m.Limits)) {
		limit := m.Limits[name]
		if len(limit.Weights) > weightsMost {
			limit.Weights = nil
		}
		all = append(all, limit)
	}
	text, err := json.Marshal(all)
	sum := sha256.Sum256(text)
	m.Hash = hex.EncodeToString(sum[:16])
	return text, err
}

// publish stores limits by their hash. They are sent only if they are not there.
func (r *Register) publish(ctx context.Context, hash string, limits []byte) error {
	there, err := r.client.Expire(ctx, limitsKey(hash), limitsKept).Result()
	if err != nil || there {
		return err
	}
	return r.client.Set(ctx, limitsKey(hash), limits, limitsKept).Err()
}

// unpack reads the limits of members. A member whose limits are of another version has none.
func (r *Register) unpack(ctx context.Context, all []Member) error {
	texts := map[string]*redis.StringCmd{}
	for _, m := range all {
		if m.Hash != "" {
			texts[m.Hash] = nil
		}
	}
	if len(texts) == 0 {
		return nil
	}
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for hash := range texts {
			texts[hash] = p.Get(ctx, limitsKey(hash))
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // a pipeline returns the error of its first failed command
		return err
	}
	for i := range all {
		var limits []reservations.Limit
		if text := texts[all[i].Hash]; text != nil && json.Unmarshal([]byte(text.Val()), &limits) == nil {
			all[i].Limits = ByName(valid(limits))
		}
	}
	return nil
}

// valid are the limits that a limiter accepts: a worker of another version may have others.
func valid(limits []reservations.Limit) []reservations.Limit {
	return slices.DeleteFunc(limits, func(l reservations.Limit) bool { return l.Validate() != nil })
}

// InForce returns the limits that a reader goes by, sorted by name: the limits of live workers, then the limits that
// only the file has. Where workers differ, the settings that most of them have count.
func InForce(members []Member, file []reservations.Limit) []reservations.Limit {
	all := ByName(file)
	for name, sides := range sidesOf(members) {
		all[name] = sides[0].limit
	}
	return slices.SortedFunc(maps.Values(all), func(a, b reservations.Limit) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// side is the settings of a limit that some workers have.
type side struct {
	limit   reservations.Limit
	text    string
	workers []string
}

// sidesOf returns the different settings of each limit, the most common first.
func sidesOf(members []Member) map[string][]side {
	all := map[string][]side{}
	for _, m := range members {
		for name, limit := range m.Limits {
			text := limitText(limit)
			i := slices.IndexFunc(all[name], func(s side) bool { return s.text == text })
			if i < 0 {
				i, all[name] = len(all[name]), append(all[name], side{limit: limit, text: text})
			}
			all[name][i].workers = append(all[name][i].workers, m.Name)
		}
	}
	for _, sides := range all {
		slices.SortStableFunc(sides, func(a, b side) int { return len(b.workers) - len(a.workers) })
	}
	return all
}

// limitText has all settings of a limit that change what starts, for people.
func limitText(l reservations.Limit) string {
	texts := MeterTexts(l)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		parts = append(parts, name+" "+texts[name])
	}
	add := func(name string, value any, set bool) {
		if set {
			parts = append(parts, fmt.Sprintf("%s %v", name, value))
		}
	}
	add("settle", l.Settle, l.Settle != "" && l.Settle != reservations.SettleAdjust)
	add("max_wait", l.MaxWait, l.MaxWait > 0)
	add("max_block", l.MaxBlock, l.MaxBlock > 0)
	add("shards", l.Shards, l.Shards > 1)
	add("ordinary_share", l.OrdinaryShare, l.OrdinaryShare > 0)
	return strings.Join(parts, "; ")
}

// Source says where the settings of a limit come from, where that is not the same in all live workers and in the file.
type Source struct {
	// Differs are the settings of the limit that do not count, in words.
	Differs []string
	// Place says where the limit is. Empty if both workers and the file have it, or there is nothing to compare.
	Place string
}

// Sources returns the limits of live workers and of a file that are not the same in both, by name. Without live workers
// there is nothing to compare. File is the name of the file; a file without limits is not compared.
func Sources(members []Member, file string, limits []reservations.Limit) map[string]Source {
	all := map[string]Source{}
	if len(members) == 0 {
		return all
	}
	said := ByName(limits)
	for name, sides := range sidesOf(members) {
		var s Source
		for _, other := range sides[1:] {
			s.Differs = append(s.Differs, some(other.workers, "has")+" "+other.text)
		}
		switch l, both := said[name]; {
		case both && limitText(l) != sides[0].text:
			s.Differs = append(s.Differs, file+" has "+limitText(l))
		case !both && len(limits) > 0:
			s.Place = "in " + some(sides[0].workers, "") + ", not in " + file
		}
		if s.Differs != nil || s.Place != "" {
			all[name] = s
		}
	}
	for name := range said {
		if lack := Lacking(members, Need{Limit: name}); lack != nil {
			all[name] = Source{Place: "in " + file + ", but " + lack.None()}
		}
	}
	return all
}

// some names workers. Verb is that of one worker, or empty.
func some(workers []string, verb string) string {
	text := "worker " + workers[0]
	if n := len(workers) - 1; n > 0 {
		text = fmt.Sprintf("workers %s and %d more", workers[0], n)
		if verb == "has" {
			verb = "have"
		}
	}
	return strings.TrimSpace(text + " " + verb)
}
