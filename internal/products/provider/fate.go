package provider

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"time"
)

// fate is the end of a request with room.
type fate int

const (
	fine fate = iota
	refused
	failing
	dropped
)

// TroubleReport is one refusal of [Config.Trouble].
type TroubleReport struct {
	// At is when the request was refused. Until is the end of the time that the refusal named.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`

	// Within counts the requests with room that arrived between At and Until. LastWithin is the time from At to the
	// last of them.
	Within     int           `json:"within"`
	LastWithin time.Duration `json:"last_within"`
}

// fate returns the fate of the request that arrives now, by the shares of Config.Trouble. The request counts for the
// refusals whose time has not ended. It requires that a.mu is held.
func (a *account) fate(now time.Time) fate {
	for i := range a.troubles {
		if r := &a.troubles[i]; now.Before(r.Until) {
			r.Within++
			r.LastWithin = max(r.LastWithin, now.Sub(r.At))
		}
	}
	shares := a.cfg.Trouble
	switch part := a.random.Float64(); {
	case part < shares.Refuse:
		a.troubles = append(a.troubles, TroubleReport{At: now, Until: now.Add(shares.For)})
		return refused
	case part < shares.Refuse+shares.Fail:
		return failing
	case part < shares.Refuse+shares.Fail+shares.Drop:
		return dropped
	default:
		return fine
	}
}

// character is the properties of an answer that the request's bytes determine.
type character struct {
	id      string
	latency time.Duration
	share   float64 // of max_tokens
}

func (s *Server) characterOf(body []byte) character {
	sum := sha256.Sum256(body)
	// Each part is a uniform number from 0 to 1.
	part := func(at int) float64 { return float64(binary.BigEndian.Uint32(sum[at:])) / math.MaxUint32 }
	return character{
		id:      hex.EncodeToString(sum[:12]),
		latency: s.cfg.MinLatency + time.Duration(part(16)*float64(s.cfg.MaxLatency-s.cfg.MinLatency)),
		share:   s.cfg.UsedMin + part(20)*(s.cfg.UsedMax-s.cfg.UsedMin),
	}
}
