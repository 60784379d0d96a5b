package main

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// shownBucket is a bucket as the commands print it. The keys of its JSON are a promise to scripts; times are seconds from now.
type shownBucket struct {
	Bucket string    `json:"bucket"`
	Limit  string    `json:"limit"`
	Key    string    `json:"key"`
	InUse  bool      `json:"in_use"`
	Now    time.Time `json:"now"`
	// Waiting is how many tasks wait in its line, FirstIn and LastIn are when they are due.
	Waiting int      `json:"waiting"`
	FirstIn *float64 `json:"first_in_seconds,omitempty"`
	LastIn  *float64 `json:"last_in_seconds,omitempty"`
	DoneIn  float64  `json:"done_in_seconds"`
	Blocked float64  `json:"blocked_seconds"`
	// Override is what replaces the limit of the file.
	Override string        `json:"override,omitempty"`
	Meters   []shownMeter  `json:"meters"`
	Shift    float64       `json:"shift_seconds"`
	Speed    float64       `json:"speed"`
	Version  int64         `json:"version"`
	Shards   []shownBucket `json:"shards,omitempty"`

	waiting bool // says the bucket, whatever stands in Redis
	meters  []reservations.MeterView
}

type shownMeter struct {
	Meter    string  `json:"meter"`
	Kind     string  `json:"kind"`
	Rate     float64 `json:"rate"`
	Period   float64 `json:"period_seconds"`
	Capacity float64 `json:"capacity"`
	// MaxReserved is nil where it is unlimited.
	MaxReserved *float64 `json:"max_reserved"`
	Level       float64  `json:"level"`
	Debt        float64  `json:"debt"`
	Late        float64  `json:"late"`
	Plan        float64  `json:"plan"`
	PlanIn      float64  `json:"plan_seconds"`
	Line        float64  `json:"line"`
	LineIn      float64  `json:"line_seconds"`
	// Gap is what of Plan and Line nobody asked for: it keeps the places in time of tasks that wait for a scarcer meter.
	Gap float64 `json:"gap"`
}

func newShownBucket(v reservations.View) shownBucket {
	b := shownBucket{
		Bucket: v.Bucket(), Limit: v.Limit, Key: v.Key, InUse: v.Found, Now: v.Now.UTC(), DoneIn: v.DoneIn.Seconds(), Blocked: v.Blocked.Seconds(),
		Shift: v.Shift.Seconds(), Speed: v.Speed, Version: v.Version, waiting: v.Waiting, meters: v.Meters,
	}
	for _, m := range v.Meters {
		s := shownMeter{
			Meter: m.Name, Kind: string(m.Kind), Rate: m.Rate, Period: m.Period.Seconds(), Capacity: m.Cap(), Level: m.Level, Debt: m.Debt,
			Late: m.Late, Plan: m.Plan, PlanIn: m.PlanIn.Seconds(), Line: m.Line, LineIn: m.LineIn.Seconds(), Gap: m.Gap,
		}
		if s.Kind == "" {
			s.Kind = string(reservations.KindBucket)
		}
		if m.MaxReserved != reservations.Unlimited {
			s.MaxReserved = &m.MaxReserved
		}
		b.Meters = append(b.Meters, s)
	}
	for _, shard := range v.Shards {
		b.Shards = append(b.Shards, newShownBucket(shard))
	}
	return b
}
