package worker

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/reservations"
)

// limitSet is the limits of a limiter at one moment.
type limitSet interface {
	Names() []string
	Configured(name string) (reservations.Limit, error)
	For(name, key string) (reservations.Limit, error)
	Overrides() []reservations.Override
}

// logChanges logs how the limits in force have changed, one line for each meter.
func (f *follower) logChanges(before, after limitSet) {
	log := func(message string, attrs ...slog.Attr) {
		f.log.LogAttrs(context.Background(), slog.LevelInfo, message, attrs...)
	}
	own, ownBefore := overridesByKey(after), overridesByKey(before)
	all := slices.AppendSeq(slices.Collect(maps.Keys(own)), maps.Keys(ownBefore))
	for _, name := range slices.Concat(before.Names(), after.Names()) {
		all = append(all, limitAndKey{limit: name})
	}
	slices.SortFunc(all, func(a, b limitAndKey) int { // each limit before its keys
		return cmp.Or(cmp.Compare(a.limit, b.limit), cmp.Compare(a.key, b.key))
	})
	for _, at := range slices.Compact(all) {
		if at.key != "" && slices.Equal(own[at], ownBefore[at]) {
			continue // goes with its limit
		}
		was, errWas := before.For(at.limit, at.key)
		is, errIs := after.For(at.limit, at.key)
		base := []slog.Attr{slog.String("limit", at.limit)}
		if at.key != "" {
			base = append(base, slog.String("key", at.key))
		}
		switch {
		case errWas != nil && errIs == nil:
			log("limit added", base...)
		case errWas == nil && errIs != nil:
			log("limit removed", base...)
		default:
			for _, c := range meterChanges(was, is) {
				log("limit changed", slices.Concat(base, changed(c), setBy(own[at], c.Meter))...)
			}
			if at.key == "" {
				configured(log, before, after, at.limit)
			}
			if was.MaxWait != is.MaxWait || was.Settle != is.Settle {
				base = append(base, slog.Duration("max_wait", is.MaxWait), slog.String("settle", string(is.Settle)))
				log("limit changed", base...)
			}
		}
	}
}

// configured logs changes of the configuration that an override keeps from coming into force.
func configured(log func(string, ...slog.Attr), before, after limitSet, limit string) {
	was, errWas := before.Configured(limit)
	is, errIs := after.Configured(limit)
	if errWas != nil || errIs != nil {
		return
	}
	inForce, _ := after.For(limit, "") // it is there
	counts := register.MeterTexts(inForce)
	for _, c := range meterChanges(was, is) {
		if c.There != counts[c.Meter] {
			attrs := append([]slog.Attr{slog.String("limit", limit)}, changed(c)...)
			log("limit changed below an override, which counts", attrs...)
		}
	}
}

// limitAndKey is a limit, or one of its keys that has an override.
type limitAndKey struct{ limit, key string }

// overridesByKey are the overrides of each limit and key: a fleet may have one for each of many tenants.
func overridesByKey(set limitSet) map[limitAndKey][]reservations.Override {
	own := map[limitAndKey][]reservations.Override{}
	for _, o := range set.Overrides() {
		at := limitAndKey{limit: o.Limit, key: o.Key}
		own[at] = append(own[at], o)
	}
	return own
}

// meterChanges are the meters that differ, in words.
func meterChanges(was, is reservations.Limit) []register.Difference {
	return member(was).Differences(member(is))
}

func member(limits ...reservations.Limit) register.Member {
	return register.Member{Limits: register.ByName(limits)}
}

// changed are the attributes of a meter that differs.
func changed(d register.Difference) []slog.Attr {
	const none = "none"
	return []slog.Attr{
		slog.String("meter", d.Meter), slog.String("old", cmp.Or(d.Here, none)), slog.String("new", cmp.Or(d.There, none)),
	}
}

// setBy returns the author of a meter's override; nothing if there is none.
func setBy(own []reservations.Override, meter string) []slog.Attr {
	for _, o := range own {
		if o.Meter == meter && o.By != "" {
			return []slog.Attr{slog.String("by", o.By)}
		}
	}
	return nil
}
