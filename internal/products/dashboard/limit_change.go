package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

// Overrides stores the rates that people set while the fleet runs, as the stores of mongostore and redisstore do.
type Overrides interface {
	SetOverride(ctx context.Context, set reservations.Override) error
	UnsetOverride(ctx context.Context, limit, key, meter string) (bool, error)
}

// bucketActions change one bucket, and the rates of its limit.
func (s *Server) bucketActions(b state.Bucket) []action {
	at := reservations.BucketName{Limit: b.Limit, Key: b.Key}.String()
	sends := [][2]string{{"limit", b.Limit}, {"key", b.Key}}
	var all []action
	if b.Blocked > 0 || b.Refusing != "" {
		all = append(all, action{
			Path: "unblock", Name: "Unblock", Of: at, Sends: sends,
			Says: "Waiting tasks start at once, at the rate of the limit. If the provider still refuses, the next call blocks " +
				"the limit again.",
		})
	}
	all = append(all, action{
		Path: "reset", Name: "Reset", Of: at, Sends: sends,
		Says: "The bucket counts as full: what was taken from it, its debt and its block are forgotten. The provider does " +
			"not forget, and may refuse what starts now.",
	})
	if s.config.Overrides == nil {
		return s.offer(all...)
	}
	keys := "all keys of limit " + b.Limit + " that have no rate of their own"
	if b.Key != "" {
		keys = "key " + b.Key + " of limit " + b.Limit
	}
	for _, m := range b.Meters {
		fields := append(slices.Clone(sends), [2]string{"meter", m.Meter})
		a := action{
			Path: "set", Name: "Set " + m.Meter, Of: "of " + at, Sends: fields,
			Says: "The whole fleet goes by the new rate within 2 seconds, for " + keys + ", until it is unset. Now: " +
				register.MeterLine(m.View.Meter) + ".",
			Asks: []asked{
				{Name: "rate", Label: "Rate", Example: "300/m"},
				{Name: "capacity", Label: "Largest burst, in tokens", Example: "as it is", Optional: true},
			},
		}
		if m.Meter == reservations.MeterInFlight {
			a.Asks = []asked{{Name: "rate", Label: "Calls at once", Example: "20"}}
		}
		all = append(all, a)
		if _, is := s.override(b.Limit, b.Key, m.Meter); is {
			all = append(all, action{
				Path: "unset", Name: "Unset " + m.Meter, Of: "of " + at, Sends: fields,
				Says: "The configured rate counts again within 2 seconds, for " + keys + ".",
			})
		}
	}
	return s.offer(all...)
}

// override is what is set for a meter; false if nothing is.
func (s *Server) override(limit, key, meter string) (reservations.Override, bool) {
	for _, o := range inside.Of(s.config.Reader.Limiter).Limits().Overrides() {
		if o.Limit == limit && o.Key == key && o.Meter == meter {
			return o, true
		}
	}
	return reservations.Override{}, false
}

// bucketOf is the bucket that a form names. A limit that there is not is an error.
func (s *Server) bucketOf(r *http.Request) (reservations.BucketName, reservations.Limit, error) {
	at := reservations.BucketName{Limit: r.PostFormValue("limit"), Key: r.PostFormValue("key")}
	if s.config.Reader.Limiter == nil {
		return at, reservations.Limit{}, &notFoundError{what: "This page has no limits."}
	}
	limit, err := inside.Of(s.config.Reader.Limiter).Limits().For(at.Limit, at.Key)
	return at, limit, err
}

func (s *Server) unblock(r *http.Request) (string, error) {
	at, _, err := s.bucketOf(r)
	if err == nil {
		_, err = s.config.Reader.Unblock(r.Context(), at)
	}
	return back(limitLink(at.String()), "unblocked", 1), err
}

func (s *Server) reset(r *http.Request) (string, error) {
	at, _, err := s.bucketOf(r)
	if err == nil {
		err = s.config.Reader.Reset(r.Context(), at)
	}
	return back(limitLink(at.String()), "reset", 1), err
}

// setRate sets the rate of a meter.
func (s *Server) setRate(r *http.Request) (string, error) {
	at, limit, err := s.bucketOf(r)
	if err != nil || s.config.Overrides == nil {
		return "", errors.Join(err, s.withoutOverrides())
	}
	set := reservations.Override{
		Limit: at.Limit, Key: at.Key, Meter: r.PostFormValue("meter"), SetAt: time.Now().UTC(), By: "the page",
	}
	if user, _, named := r.BasicAuth(); named && user != "" {
		set.By = user + " on the page"
	}
	if text := strings.TrimSpace(r.PostFormValue("capacity")); text != "" {
		burst, bad := strconv.ParseFloat(text, 64)
		if bad != nil || !(burst >= 0) {
			return "", &invalidError{fmt.Errorf("the burst %q must be a number of tokens, zero or more", text)}
		}
		if set.Capacity = burst; burst == 0 {
			set.Capacity = reservations.None
		}
	}
	if err = config.ParseOverride(&set, strings.TrimSpace(r.PostFormValue("rate"))); err != nil {
		return "", &invalidError{err}
	}
	if err = config.CheckOverride([]reservations.Limit{limit}, set); err != nil {
		return "", &invalidError{err}
	}
	if err = s.config.Overrides.SetOverride(r.Context(), set); err != nil {
		return "", err
	}
	return back(limitLink(at.String()), "set", 1), s.goBy(set, false)
}

func (s *Server) unset(r *http.Request) (string, error) {
	at, _, err := s.bucketOf(r)
	if err != nil || s.config.Overrides == nil {
		return "", errors.Join(err, s.withoutOverrides())
	}
	meter := r.PostFormValue("meter")
	there, err := s.config.Overrides.UnsetOverride(r.Context(), at.Limit, at.Key, meter)
	if err == nil && !there {
		return "", &notFoundError{what: "Nothing is set for this meter."}
	}
	if err == nil {
		err = s.goBy(reservations.Override{Limit: at.Limit, Key: at.Key, Meter: meter}, true)
	}
	return back(limitLink(at.String()), "unset", 1), err
}

// goBy has this page show a change of the overrides before it reads them again.
func (s *Server) goBy(changed reservations.Override, unset bool) error {
	limiter := s.config.Reader.Limiter
	all := slices.DeleteFunc(inside.Of(limiter).Limits().Overrides(), func(o reservations.Override) bool {
		return o.Limit == changed.Limit && o.Key == changed.Key && o.Meter == changed.Meter
	})
	if !unset {
		all = append(all, changed)
	}
	return inside.Of(limiter).SetOverrides(all)
}

// withoutOverrides is the error where the page can't store rates.
func (s *Server) withoutOverrides() error {
	if s.config.Overrides != nil {
		return nil
	}
	return &notFoundError{what: "This page has no store for the rates of limits."}
}
